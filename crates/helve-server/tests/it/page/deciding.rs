//! Deciding: by keyboard, with edits, with a reason, without a script.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn somebody_signs_in_sees_what_hides_and_approves_with_the_keyboard_alone() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "ada@example.com\u{202e}moc.live", "subject": "tag\u{e0041}" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    assert_eq!(browser.eval(&format!("location.hash + {PATH}")).await, json!("/"), "the code is not kept");
    let shown = browser.eval("document.querySelector('pre.args').textContent").await;
    assert!(shown.as_str().unwrap().contains(r"ada@example.com\u{202e}moc.live"), "{shown}");
    let marked =
        browser.eval("[...document.querySelectorAll('pre.args mark')].map((m) => m.textContent)").await;
    assert_eq!(marked, json!([r"\u{e0041}", r"\u{202e}"]));
    assert_eq!(
        browser.eval("/[\\u202e\\u{e0041}]/u.test(document.documentElement.outerHTML)").await,
        json!(false)
    );
    // A filter is text: the letters in it decide nothing.
    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    browser.press(&["a", "d", "Escape"]).await;
    assert_eq!(desk.pending().await, 1);
    settle(&mut browser).await;
    browser.press(&["a"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    browser.until("document.querySelectorAll('#rows .row').length === 0").await;
    assert_eq!(desk.sent().len(), 1, "exactly once");
    assert_eq!(desk.sent()[0]["to"], "ada@example.com\u{202e}moc.live");
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn edited_arguments_are_checked_and_compared_before_they_run() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "everybody@example.com", "subject": "Hello" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    settle(&mut browser).await;
    let replace = |text: &str| {
        format!(
            "(() => {{ const t = document.querySelector('textarea[name=edited]'); t.focus(); t.value = {}; }})()",
            json!(text)
        )
    };
    browser.press(&["e"]).await;
    browser.until("document.activeElement.name === 'edited'").await;
    browser.eval(&replace(r#"{"to": 7}"#)).await;
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("/expected string/.test(document.querySelector('[role=alert]').textContent)").await;
    assert_eq!(
        browser.eval("document.activeElement.value").await,
        json!(r#"{"to": 7}"#),
        "what was typed stays"
    );
    browser.eval(&replace(r#"{"to": "ada@example.com", "subject": "Hello"}"#)).await;
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("document.querySelector('.review ins')").await;
    let lines = browser
        .eval("[...document.querySelectorAll('.review del, .review ins')].map((l) => l.textContent)")
        .await;
    assert_eq!(lines, json!([r#"-   "to": "everybody@example.com""#, r#"+   "to": "ada@example.com""#]));
    browser.picture("review.png").await;
    assert_eq!((desk.pending().await, desk.sent().len()), (1, 0), "looking decides nothing");
    browser.until("document.activeElement.matches('button[data-first]')").await;
    browser.press(&["Enter"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(desk.sent(), [json!({ "to": "ada@example.com", "subject": "Hello" })]);
    browser.until("document.querySelector('.ruling') && document.querySelector('pre.diff ins')").await;
    browser.picture("decided.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_comes_back_with_its_reason_and_nothing_runs() {
    let desk = Arc::new(desk().await);
    let call = desk.call(json!({ "to": "eve@example.org" }));
    desk.until_pending(1).await;
    let mut browser = desk.browser().await;
    settle(&mut browser).await;
    browser.press(&["d"]).await;
    browser.until("document.activeElement.name === 'reason'").await;
    browser.write("Ask Ada first <script>alert(1)</script>").await;
    browser.press(&["Ctrl+Enter"]).await;
    let reply = call.await.unwrap();
    assert_eq!(reply.status, 403);
    assert!(reply.body.contains("Ask Ada first") && reply.body.contains("approval_denied"), "{reply:?}");
    assert_eq!(desk.sent(), Vec::<Value>::new());
    browser.go(&desk.server.url("/history")).await;
    browser.until("/Ask Ada first <script>/.test(document.querySelector('td.reason').textContent)").await;
    assert_eq!(browser.eval("document.querySelectorAll('main script').length").await, json!(0));
    browser.picture("history.png").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test]
async fn forms_decide_without_a_script_and_only_with_their_token() {
    let desk = desk().await;
    let (yes, no) = (desk.ask_mail("a@example.com").await, desk.ask_mail("b@example.com").await);
    let (cookie, token) = desk.sign_in().await;
    let page = desk.get("/", &cookie).await;
    let link = format!("href=\"{}/approvals/{no}\"", cookie.place);
    assert!(page.body.contains(&link) && page.body.contains("mail/send"));
    let approve = format!("/approvals/{yes}/approve");
    // Without the token, with another, twice, in the address, by GET, as another sort of body.
    for body in ["", "csrf=", "csrf=guess", &format!("csrf={token}&csrf={token}")] {
        assert_eq!(desk.form(&approve, &cookie, body).await.status, 403, "{body}");
    }
    let good = format!("csrf={token}");
    assert_eq!(desk.form(&format!("{approve}?{good}"), &cookie, "").await.status, 403);
    assert_eq!(desk.get(&format!("{approve}?{good}"), &cookie).await.status, 405);
    let plain = [("authorization", "-"), ("cookie", &*cookie.cookie), ("content-type", "text/plain")];
    let line = format!("POST {}{approve}", cookie.place);
    assert_eq!(desk.server.send(&line, &plain, &good).await.status, 403);
    let media = ("content-type", "application/x-www-form-urlencoded");
    for foreign in [
        ("origin", "http://127.0.0.1:1"),
        ("origin", "null"),
        ("origin", "http://evil.example.com"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let headers = [plain[0], plain[1], media, foreign];
        assert_eq!(desk.server.send(&line, &headers, &good).await.status, 403, "{foreign:?}");
    }
    // Without a cookie the token is worth nothing; with a caller's own secret neither.
    assert_eq!(desk.form(&approve, &STRANGER, &good).await.headers["location"], "/sign-in");
    let bearer = format!("Bearer {BOB}");
    let own = desk.server.send(&format!("POST {approve}"), &[("authorization", &bearer), media], &good).await;
    assert_eq!(own.status, 303, "{own:?}");
    assert_eq!((desk.state(yes).await, desk.sent().len()), (ApprovalState::Pending, 0));
    // The field opens no door of the API.
    let api = desk.form(&format!("/v1/approvals/{yes}/decision"), &cookie, &good).await;
    assert_eq!(api.status, 403);
    let decided = desk.form(&approve, &cookie, &good).await;
    assert_eq!(
        (decided.status, decided.headers["location"].as_str()),
        (303, format!("{}/approvals/{yes}", cookie.place).as_str())
    );
    assert_eq!(desk.state(yes).await, ApprovalState::Approved);
    let again = desk.form(&format!("/approvals/{yes}/deny"), &cookie, &good).await;
    assert_eq!(again.status, 409);
    assert!(again.body.contains("was approved by local user ada"), "{}", again.body);
    let denied =
        desk.form(&format!("/approvals/{no}/deny"), &cookie, &format!("{good}&reason=not+now")).await;
    assert_eq!(denied.status, 303);
    let page = desk.get(&format!("/approvals/{no}"), &cookie).await;
    assert!(page.body.contains("<blockquote>not now</blockquote>"), "{}", page.body);
    // An edit is shown first, by form as well.
    let third = desk.ask_mail("c@example.com").await;
    let edited = "edited=%7B%22to%22%3A%22d%40example.com%22%7D";
    let shown = desk.form(&format!("/approvals/{third}/edit"), &cookie, &format!("{good}&{edited}")).await;
    assert!(shown.status == 200 && shown.body.contains("<ins>"), "{shown:?}");
    assert_eq!(desk.state(third).await, ApprovalState::Pending);
    let approve = format!("/approvals/{third}/approve");
    let broken = desk.form(&approve, &cookie, &format!("{good}&edited=%7B")).await;
    assert_eq!((broken.status, broken.body.matches("EOF while").count()), (422, 1), "said once");
    assert_eq!(desk.form(&approve, &cookie, &format!("{good}&edited=%7B%22to%22%3A7%7D")).await.status, 422);
    assert_eq!(desk.state(third).await, ApprovalState::Pending);
    assert_eq!(desk.form(&approve, &cookie, &format!("{good}&{edited}")).await.status, 303);
    let outcome =
        desk.server.runtime.outcome_of(third, &Caller::agent("reviewer").session("s-7")).await.unwrap();
    assert!(matches!(outcome.status, Status::Done(_)), "{outcome:?}");
    assert_eq!(desk.sent(), [json!({ "to": "d@example.com" })]);
    let out = desk.form("/sign-out/form", &cookie, &good).await;
    assert_eq!(out.headers["location"], "/sign-in");
    assert_eq!(desk.get("/", &cookie).await.status, 303);
}

#[tokio::test]
async fn what_is_asked_each_time_is_not_offered_for_the_session() {
    let desk = desk().await;
    let (cookie, token) = desk.sign_in().await;
    let once = desk.ask_mail("ada@example.com").await;
    let mail = json!({ "to": "ben@example.com" });
    let advised = Call::new("mail/send", mail).by(Caller::agent("reviewer").session("s-7"));
    let advised = advised.advised(helve::Advice::new(helve::AdvisedAction::RequestApproval));
    let outcome = desk.server.runtime.call(advised).await;
    let Status::Pending(pending) = outcome.status else { panic!("{outcome:?}") };
    let each = pending.approval_id;
    let offers = async |id: ApprovalId| {
        let page = desk.get(&format!("/approvals/{id}"), &cookie).await;
        page.body.contains(&format!("/approvals/{id}/always"))
    };
    assert!(offers(once).await && !offers(each).await);
    // A form that somebody kept does not get around it.
    let body = format!("csrf={token}&same=%22%2Fto%22");
    let refused = desk.form(&format!("/approvals/{each}/always"), &cookie, &body).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("cannot be allowed for the session"), "{refused:?}");
    assert_eq!(desk.state(each).await, ApprovalState::Pending);
    assert_eq!(desk.form(&format!("/approvals/{once}/always"), &cookie, &body).await.status, 303);
    assert!(desk.server.runtime.approvals().rules(10).await.unwrap().len() == 1 && desk.sent().is_empty());
}

const SHOWN: &str = "document.querySelector('article')?.dataset.id";

/// A person who filters and then decides means what is left in the list.
#[tokio::test(flavor = "multi_thread")]
async fn keys_decide_only_what_the_filter_leaves_in_the_list() {
    let desk = desk().await;
    let wanted = desk.ask_mail("user771@example.com").await;
    let other = desk.ask_mail("mallory@example.com").await;
    let mut browser = desk.browser().await;
    browser.until(&format!("{SHOWN} === '{other}'")).await;
    settle(&mut browser).await;
    // At once, before the list has come.
    browser.eval("void (document.querySelector('#filter').value = 'user771')").await;
    browser.press(&["a"]).await;
    browser
        .until("/does not follow the filter yet/.test(document.querySelector('#toasts').textContent)")
        .await;
    browser.eval("void (document.querySelector('#filter').value = '')").await;
    assert_eq!(desk.pending().await, 2, "nothing was decided");

    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    browser.write("user771").await;
    browser.press(&["Enter"]).await;
    browser
        .until(&format!("{SHOWN} === '{wanted}' && document.querySelectorAll('#rows .row').length === 1"))
        .await;
    settle(&mut browser).await;
    browser.press(&["a"]).await;
    desk.until_pending(1).await;
    assert_eq!(
        (desk.state(wanted).await, desk.state(other).await),
        (ApprovalState::Approved, ApprovalState::Pending)
    );

    // Nothing fits: nothing is shown, and no key decides.
    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    browser.eval("document.querySelector('#filter').select()").await;
    browser.write("nobody-at-all").await;
    browser.press(&["Enter"]).await;
    browser.until("!document.querySelector('article') && !document.querySelector('#rows .row')").await;
    browser.press(&["a"]).await;
    assert_eq!(desk.pending().await, 1);
    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    browser.eval("document.querySelector('#filter').value = ''; document.querySelector('#filter').form.requestSubmit()").await;
    browser.until(&format!("{SHOWN} === '{other}'")).await;
    assert_eq!(desk.sent().len(), 0);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// A person who writes does not see what happens elsewhere, and their next letters are no keys.
#[tokio::test(flavor = "multi_thread")]
async fn letters_of_a_reason_never_decide_about_another_question() {
    let desk = desk().await;
    let other = desk.ask_mail("other@example.com").await;
    let decided = desk.ask_mail("decided@example.com").await;
    let mut browser = desk.browser().await;
    browser.until(&format!("{SHOWN} === '{decided}'")).await;
    settle(&mut browser).await;
    browser.press(&["d"]).await;
    browser.until("document.activeElement.name === 'reason'").await;
    browser.write("No, ").await;
    let grace = Decider::vouched("grace", Vouch::Key);
    desk.server.runtime.approvals().decide(decided, Decision::deny("no"), &grace).await.unwrap();
    browser.until("/denied by .* meanwhile/.test(document.querySelector('#toasts').textContent)").await;
    browser.until("document.querySelectorAll('#rows .row').length === 1").await;
    browser.press(&["j"]).await;
    // Longer than keys do nothing on a question that has just come up: the clock is the browser's.
    tokio::time::sleep(Duration::from_millis(600)).await;
    browser.press(&["a"]).await;
    assert_eq!(browser.eval("document.activeElement.value").await, json!("No, ja"));
    // Sent all the same, it is refused, and what was decided is shown.
    browser.press(&["Ctrl+Enter"]).await;
    browser.until("document.querySelector('article') && !document.querySelector('.acts')").await;
    assert_eq!(browser.eval(SHOWN).await, json!(decided.to_string()));
    assert_eq!(desk.state(other).await, ApprovalState::Pending);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_of_the_filter_stay_there_whatever_comes_up_beside_it() {
    let desk = desk().await;
    let other = desk.ask_mail("other@example.com").await;
    let decided = desk.ask_mail("decided@example.com").await;
    let mut browser = desk.browser().await;
    browser.until(&format!("{SHOWN} === '{decided}'")).await;
    settle(&mut browser).await;
    browser.press(&["/"]).await;
    browser.until("document.activeElement.id === 'filter'").await;
    let grace = Decider::vouched("grace", Vouch::Key);
    desk.server.runtime.approvals().decide(decided, Decision::deny("no"), &grace).await.unwrap();
    browser.until("document.querySelector('article') && !document.querySelector('.acts')").await;
    browser.press(&["j"]).await;
    // Longer than keys do nothing on a question that has just come up: the clock is the browser's.
    tokio::time::sleep(Duration::from_millis(600)).await;
    browser.press(&["a"]).await;
    assert_eq!(browser.eval("document.activeElement.value").await, json!("ja"));
    assert_eq!(desk.state(other).await, ApprovalState::Pending);
    assert_eq!(browser.complaints, Vec::<String>::new());
}

/// Holds back what the page asks for about single questions, until `letGo` is called. `isQuiet` from when the page
/// has had all of it and done with it what it wants.
const SLOW: &str = "void ((real) => { const held = []; let open = 0; \
    window.letGo = () => held.forEach((go) => go()); \
    const answered = () => { open -= 1; if (!open) setTimeout(() => { window.isQuiet = true; }, 100); }; \
    window.fetch = async (address, ...rest) => { \
        if (!String(address).includes('/approvals/')) return real(address, ...rest); \
        open += 1; await new Promise((go) => held.push(go)); \
        const answer = await real(address, ...rest); answer.clone().text().then(answered); \
        return answer; } })(window.fetch)";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_former_filter_was_about_to_show_does_not_come_up() {
    let desk = desk().await;
    desk.ask_mail("user771@example.com").await;
    let shown = desk.ask_mail("mallory@example.com").await;
    let mut browser = desk.browser().await;
    browser.until(&format!("{SHOWN} === '{shown}'")).await;
    browser.eval(SLOW).await;
    for (words, rows) in [("user771", 1), ("", 2)] {
        let filter = "document.querySelector('#filter')";
        browser.eval(&format!("{filter}.value = '{words}'; {filter}.form.requestSubmit()")).await;
        browser.until(&format!("document.querySelectorAll('#rows .row').length === {rows}")).await;
    }
    browser.eval("letGo()").await;
    browser.until("window.isQuiet").await;
    assert_eq!(browser.eval(SHOWN).await, json!(shown.to_string()));
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_go_on_to_the_next_page_and_stay_there() {
    let desk = desk().await;
    let mut asked = Vec::new();
    for n in 0..53 {
        asked.push(desk.ask_mail(&format!("n{n}@example.com")).await);
    }
    asked.reverse();
    let mut browser = desk.browser().await;
    browser.until("document.querySelectorAll('#rows .row').length === 50").await;
    browser.eval("document.querySelectorAll('#rows .row')[49].click()").await;
    browser.until(&format!("{SHOWN} === '{}'", asked[49])).await;
    browser.press(&["j"]).await;
    browser.until(&format!("location.search && {SHOWN} === '{}'", asked[50])).await;
    settle(&mut browser).await;
    browser.press(&["j"]).await;
    browser.until(&format!("{SHOWN} === '{}'", asked[51])).await;
    // A new question does not throw the reader back to the first page.
    desk.ask_mail("new@example.com").await;
    browser.until("document.title.startsWith('(54)')").await;
    assert_eq!(browser.eval("document.querySelectorAll('#rows .row').length").await, json!(3));
    settle(&mut browser).await;
    browser.press(&["a"]).await;
    browser.until(&format!("{SHOWN} === '{}'", asked[52])).await;
    assert_eq!(desk.state(asked[51]).await, ApprovalState::Approved);
    assert_eq!(browser.complaints, Vec::<String>::new());
}
