//! How it looks and moves, with much in it.

use super::*;

/// Questions as they come in a day's work.
async fn days_work(desk: &Desk) -> ApprovalId {
    let bot = || Caller::agent("reviewer").session("s-7");
    for page in ["https://example.com/terms", "https://intranet.example/prices", "https://example.org/a"] {
        let read = Call::new("web/fetch", json!({ "url": page })).by(Arc::new(bot()));
        assert!(matches!(desk.server.runtime.call(read).await.status, Status::Done(_)));
    }
    desk.ask(
        Caller::agent("janitor").session("nightly"),
        "files/delete",
        json!({ "path": "/srv/reports/2024" }),
    )
    .await;
    let slot = json!({ "event": "Board meeting", "from": "2026-11-17T09:00", "to": "2026-11-18T09:00" });
    desk.ask(Caller::agent("planner").session("s-12"), "calendar/move", slot).await;
    desk.ask(
        Caller::principal("grace"),
        "mail/send",
        json!({ "to": "team@example.com", "subject": "Lunch?" }),
    )
    .await;
    for n in 18..22 {
        let mail = json!({ "to": "billing@example.com", "subject": format!("Reminder {n}") });
        desk.ask(Caller::agent("dunning").session(format!("run-{n}")), "mail/send", mail).await;
    }
    let mail = json!({
        "to": "ada@example.com\u{202e}gro.live", "subject": "Invoice 17",
        "text": "Dear Ada,\nplease find the invoice attached.\n\nBest, R.",
    });
    desk.ask(bot(), "mail/send", mail).await
}

#[tokio::test(flavor = "multi_thread")]
async fn it_works_on_a_phone_in_the_dark_and_with_a_choice_of_colours() {
    let desk = desk().await;
    let id = days_work(&desk).await;
    let mut browser = desk.browser().await;
    browser.until("document.querySelectorAll('.earlier li').length === 3").await;
    browser.picture("light.png").await;
    let background = "getComputedStyle(document.body).backgroundColor";
    let light = browser.eval(background).await;
    browser.scheme("dark").await;
    assert_ne!(browser.eval(background).await, light);
    browser.picture("dark.png").await;
    browser.eval("document.querySelector('#theme').click()").await;
    browser.go(&desk.server.url("/rules")).await;
    browser.until("document.querySelector('.wide')").await;
    assert_eq!(browser.eval(background).await, light, "the choice is kept, whatever the system says");
    browser.eval("localStorage.removeItem('helve-theme')").await;
    browser.scheme("light").await;
    browser.size(360, 740).await;
    let fits = "document.documentElement.scrollWidth <= innerWidth && innerWidth === 360";
    for path in ["/", &format!("/approvals/{id}"), "/history", "/live", "/rules"] {
        browser.go(&desk.server.url(path)).await;
        browser.until(&format!("{PATH} === '{path}' && document.readyState === 'complete'")).await;
        let wide = browser.eval("[...document.querySelectorAll('*')].filter((e) => e.getBoundingClientRect().right > 361).map((e) => e.outerHTML.slice(0, 90)).slice(0, 5)").await;
        assert_eq!(browser.eval(fits).await, json!(true), "{path} {wide}");
        let name = path.split('/').nth(1).unwrap_or_default();
        browser.picture(&format!("phone-{name}.png")).await;
    }
    browser.go(&desk.server.url("/")).await;
    browser.until("document.querySelectorAll('#rows .row').length === 8").await;
    assert_eq!(
        browser.eval("getComputedStyle(document.querySelector('#detail')).display").await,
        json!("none")
    );
    browser.eval("document.querySelector('#rows .row').click()").await;
    browser.until("getComputedStyle(document.querySelector('.list')).display === 'none'").await;
    for key in ["e", "s", "d"] {
        settle(&mut browser).await;
        browser.press(&[key]).await;
        browser.until(&format!("document.querySelector('details[data-key={key}]').open")).await;
        assert_eq!(browser.eval(fits).await, json!(true), "{key}");
        browser.picture(&format!("phone-act-{key}.png")).await;
        browser.press(&["Escape"]).await;
    }
    assert_eq!(desk.pending().await, 8);
    browser.tell("Network.clearBrowserCookies", json!({})).await;
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser.until("location.pathname === '/sign-in' && document.activeElement.id === 'code'").await;
    assert_eq!(browser.eval(fits).await, json!(true));
    browser.picture("phone-sign-in.png").await;
    browser.write(&desk.code().await).await;
    browser.press(&["Enter"]).await;
    browser.until(&format!("{PATH} === '/approvals/{id}'")).await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inbox_follows_what_happens_and_the_keys_move_in_it() {
    let desk = desk().await;
    let mut browser = desk.browser().await;
    browser.until("/No question waits/.test(document.querySelector('#detail').textContent)").await;
    browser.picture("empty.png").await;
    let first = desk.ask_mail("a@example.com").await;
    let second = desk.ask_mail("b@example.com").await;
    browser
        .until("document.querySelectorAll('#rows .row').length === 2 && document.title.startsWith('(2)')")
        .await;
    browser.press(&["j"]).await;
    browser.until(&format!("document.querySelector('article')?.dataset.id === '{second}'")).await;
    browser.press(&["j"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{first}'")).await;
    browser.press(&["ArrowUp"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{second}'")).await;
    browser.press(&["?"]).await;
    browser.until("document.querySelector('#keys').open").await;
    browser.picture("keys.png").await;
    browser.press(&["a", "Escape"]).await;
    browser.until("!document.querySelector('#keys').open").await;
    assert_eq!(desk.pending().await, 2, "behind the list of keys nothing is decided");
    settle(&mut browser).await;
    // Two presses in a hurry are one decision.
    browser.press(&["a", "a", "a"]).await;
    browser.until(&format!("document.querySelector('article').dataset.id === '{first}'")).await;
    assert_eq!(
        (desk.state(first).await, desk.state(second).await),
        (ApprovalState::Pending, ApprovalState::Approved)
    );
    settle(&mut browser).await;
    browser.press(&["s"]).await;
    browser.until("document.querySelector('details[data-key=s]').open").await;
    browser.picture("always.png").await;
    browser.eval("document.querySelectorAll('details[data-key=s] input[type=checkbox]').forEach((box) => box.value === '\"/to\"' || box.click())").await;
    browser.eval("document.querySelector('details[data-key=s] form').requestSubmit()").await;
    browser.until("document.querySelector('.ruling')").await;
    let rules = desk.server.runtime.approvals().rules(9).await.unwrap();
    assert_eq!(rules[0].same, helve::approval::Same::Fields(vec!["/to".to_owned()]));
    browser.go(&desk.server.url("/rules")).await;
    browser.until("document.querySelector('.cards form')").await;
    browser.picture("rules.png").await;
    browser.eval("document.querySelector('.cards form').requestSubmit()").await;
    browser.until("/No rule holds/.test(document.body.innerText)").await;
    assert!(desk.server.runtime.approvals().rules(9).await.unwrap()[0].revoked_at.is_some());
    assert_eq!(desk.sent().len(), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Hides the page as a browser hides that of another tab, and shows it again.
async fn hide(browser: &mut Browser, is_hidden: bool) {
    let hide =
        format!("Object.defineProperty(document, 'hidden', {{ value: {is_hidden}, configurable: true }})");
    browser.eval(&format!("void {hide}")).await;
    browser.eval("void document.dispatchEvent(new Event('visibilitychange'))").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_while_nobody_looked_is_shown_on_return() {
    let desk = desk().await;
    let id = desk.ask_mail("a@example.com").await;
    let mut browser = desk.browser().await;
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser.until("document.querySelector('article').dataset.state === 'pending'").await;
    settle(&mut browser).await;
    // What waits stays as it is: somebody writes.
    browser.press(&["d"]).await;
    browser.until("document.activeElement.name === 'reason'").await;
    browser.write("Not before").await;
    hide(&mut browser, true).await;
    let second = desk.ask_mail("b@example.com").await;
    hide(&mut browser, false).await;
    browser.until("document.querySelectorAll('#rows .row').length === 2").await;
    assert_eq!(browser.eval("document.activeElement.value").await, json!("Not before"));
    hide(&mut browser, true).await;
    let decider = Decider::vouched("grace", Vouch::Key);
    desk.server.runtime.approvals().decide(id, Decision::deny("no"), &decider).await.unwrap();
    hide(&mut browser, false).await;
    browser.until("document.querySelector('article').dataset.state === 'denied'").await;
    browser.until("/denied meanwhile/.test(document.querySelector('#toasts').textContent)").await;
    // Who still writes sees the rest when they send it.
    assert_eq!(browser.eval("document.activeElement.value").await, json!("Not before"));
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("document.querySelector('article') && !document.querySelector('.acts')").await;
    assert_eq!(desk.state(second).await, ApprovalState::Pending);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_scrolls_by_itself() {
    let desk = desk().await;
    for n in 0..50 {
        desk.ask_mail(&format!("{n}@example.com")).await;
    }
    let mut browser = desk.browser().await;
    browser.until("document.querySelectorAll('#rows .row').length === 50").await;
    assert_eq!(browser.eval("document.documentElement.scrollHeight - innerHeight").await, json!(0));
    let list =
        "(() => { const l = document.querySelector('.list'); return l.scrollHeight > l.clientHeight })()";
    assert_eq!(browser.eval(list).await, json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn history_and_live_can_be_read_on_a_phone() {
    let desk = desk().await;
    let decider =
        Decider::vouched("grace.hopper@example.com", Vouch::Token("https://login.example.com".to_owned()));
    for reason in ["This goes to everybody in the company; ask Ada first.", "no"] {
        let id = desk.ask_mail(&format!("{}@example.com", reason.len())).await;
        desk.server.runtime.approvals().decide(id, Decision::deny(reason), &decider).await.unwrap();
    }
    let id = desk.ask_mail("ada@example.com").await;
    desk.server.runtime.approvals().decide(id, Decision::approve(), &decider).await.unwrap();
    let mut browser = desk.browser().await;
    browser.size(360, 740).await;
    // Within the window, without scrolling sideways, and no tool's name in pieces.
    let readable = "[...document.querySelectorAll('td')].every((td) => td.scrollWidth <= td.clientWidth && td.getBoundingClientRect().right <= 345) \
        && [...document.querySelectorAll('td.tool')].every((td) => td.getBoundingClientRect().height < 30) \
        && document.documentElement.scrollWidth === 360";
    browser.go(&desk.server.url("/history")).await;
    browser.until("document.querySelectorAll('tbody tr').length === 3").await;
    browser.picture("phone-decided.png").await;
    assert_eq!(browser.eval(readable).await, json!(true));
    let by = browser.eval("document.querySelector('[data-of=\"Decided by\"]').innerText").await;
    assert_eq!(by, json!("grace.hopper@example.com, by a token of https://login.example.com"));
    browser.go(&desk.server.url("/live")).await;
    browser.until("document.querySelector('#live-state').textContent === 'connected'").await;
    desk.ask_mail("a@example.com").await;
    let read = || Call::new("web/fetch", json!({})).by(Arc::new(Caller::agent("bot")));
    desk.server.runtime.call(read()).await;
    desk.server.runtime.call(Call::new("mail/nothing", json!({})).by(Arc::new(Caller::agent("bot")))).await;
    browser.until("document.querySelectorAll('#live tr').length === 3").await;
    browser.picture("phone-calls.png").await;
    assert_eq!(browser.eval(readable).await, json!(true));
    browser.size(1280, 800).await;
    browser.picture("wide-calls.png").await;
    browser.go(&desk.server.url("/history")).await;
    browser.until("document.querySelectorAll('tbody tr').length === 3").await;
    browser.picture("wide-decided.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_live_table_can_be_paused() {
    let desk = desk().await;
    let mut browser = desk.browser().await;
    browser.go(&desk.server.url("/live")).await;
    browser.until("document.querySelector('#live-state').textContent === 'connected'").await;
    let read = || Call::new("web/fetch", json!({})).by(Arc::new(Caller::agent("bot")));
    desk.server.runtime.call(read()).await;
    browser.until("document.querySelectorAll('#live tr').length === 1").await;
    browser.eval("document.querySelector('#live-pause').click()").await;
    desk.server.runtime.call(read()).await;
    desk.ask_mail("a@example.com").await;
    browser.until("document.querySelector('#live-pause').textContent === 'Go on (2)'").await;
    assert_eq!(browser.eval("document.querySelectorAll('#live tr').length").await, json!(1));
    browser.eval("document.querySelector('#live-pause').click()").await;
    browser.until("document.querySelectorAll('#live tr').length === 3").await;
    browser.picture("live.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test]
async fn a_thousand_questions_come_in_pages() {
    let desk = desk().await;
    for n in 0..1_000 {
        desk.ask(Caller::agent("bot").session("s"), "files/delete", json!({ "path": format!("/tmp/{n}") }))
            .await;
    }
    let (cookie, _) = desk.sign_in().await;
    let first = desk.get("/", &cookie).await;
    assert_eq!(first.body.matches("class=\"row\"").count(), 50);
    assert!(first.body.contains("<b>1000</b> waiting"));
    let (mut seen, mut path) = (0, "/".to_owned());
    loop {
        let page = desk.get(&path, &cookie).await;
        seen += page.body.matches("class=\"row\"").count();
        let Some(older) = page.body.split("<a href=\"").find(|link| link.contains(">Older<")) else { break };
        let link = older.split('"').next().unwrap().replace("&amp;", "&");
        path = link.strip_prefix(&*cookie.place).unwrap().to_owned();
    }
    assert_eq!(seen, 1_000);
    let filtered = desk.get("/?q=/tmp/77", &cookie).await;
    assert_eq!(filtered.body.matches("class=\"row\"").count(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_narrowest_screens_show_all_that_can_be_pressed() {
    let desk = desk().await;
    let id = days_work(&desk).await;
    let mut browser = desk.browser().await;
    for width in [320, 280] {
        browser.size(width, 640).await;
        for path in ["/", &format!("/approvals/{id}"), "/history", "/live", "/rules"] {
            browser.go(&desk.server.url(path)).await;
            browser.until(&format!("{PATH} === '{path}' && document.readyState === 'complete'")).await;
            assert_eq!(browser.eval("innerWidth").await, json!(width), "{path}");
            // The rooms are scrolled to where they do not fit.
            let cut = browser.eval("[...document.querySelectorAll('a, button, input, summary, textarea')].filter((e) => !e.closest('.bar nav') && e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML)").await;
            assert_eq!(cut, json!([]), "{path} at {width}");
            browser
                .picture(&format!("narrow-{width}-{}.png", path.split('/').nth(1).unwrap_or_default()))
                .await;
        }
    }
}
