//! Pages of others, markup from outside.

use super::*;

/// A page of somebody else, on another port of this machine.
async fn elsewhere(html: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{html}", html.len());
            // Browsers open connections that they then do not use.
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_another_decides_nothing() {
    let desk = desk().await;
    let id = desk.ask_mail("ada@example.com").await;
    let mut browser = desk.browser().await;
    let target = desk.server.url(&format!("/approvals/{id}/approve"));
    let form = format!(
        "<form method=post action='{target}'><input name=csrf value=guess></form><script>\
         fetch('{target}', {{ method: 'POST', mode: 'no-cors', credentials: 'include', \
         headers: {{ 'content-type': 'application/x-www-form-urlencoded' }}, body: 'csrf=guess' }})\
         .finally(() => document.forms[0].submit())</script>"
    );
    let (port, own) = (elsewhere(form).await, desk.server.url("/"));
    // Of the same site or of another: a stranger, who is led to the sign-in, and from there to the inbox.
    for host in ["127.0.0.1", "localhost"] {
        browser.go(&format!("http://{host}:{port}/")).await;
        browser
            .until(&format!("location.href.startsWith('{own}') && document.querySelector('main.inbox')"))
            .await;
        assert_eq!((desk.state(id).await, desk.sent().len()), (ApprovalState::Pending, 0), "{host}");
    }
    // Nor can it show ours in a frame.
    let framed = elsewhere(format!("<iframe src='{}'></iframe>", desk.server.url("/"))).await;
    browser.go(&format!("http://127.0.0.1:{framed}/")).await;
    // The browser says that it does not, and why.
    let refused = |browser: &Browser| browser.complaints.iter().any(|said| said.contains("frame-ancestors"));
    let until = tokio::time::Instant::now() + Duration::from_secs(30);
    while !refused(&browser) {
        assert!(tokio::time::Instant::now() < until, "{:?}", browser.complaints);
        // What was said meanwhile is heard with the answer to anything.
        browser.until("true").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Those who are signed in still are.
    browser.go(&desk.server.url("/")).await;
    browser.until("document.querySelectorAll('#rows .row').length === 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn markup_from_outside_is_text() {
    let desk = desk().await;
    let evil =
        "<img src=x onerror=\"window.hacked=1\"><script>window.hacked=1</script>'\"</textarea></pre>{}";
    let caller = Caller::agent(format!("bot {evil}")).session(evil);
    let mail = json!({ "to": evil, "subject": evil, "text": "x" });
    let id = desk.ask(caller.clone(), "mail/send", mail).await;
    desk.ask(caller, "files/delete", json!({ evil: evil })).await;
    let mut browser = desk.browser().await;
    browser.eval("document.querySelector('#rows .row:not([aria-current=true])').click()").await;
    browser.until(&format!("{PATH} === '/approvals/{id}'")).await;
    let check =
        "window.hacked === undefined && !document.querySelector('main img, main script, #detail script')";
    for selector in [".head", "pre.args", "pre.wrap", ".facts"] {
        let text = browser.eval(&format!("document.querySelector('{selector}').textContent")).await;
        assert!(text.as_str().unwrap().contains("<img src=x onerror="), "{selector}: {text}");
    }
    assert_eq!(browser.eval(check).await, json!(true));
    let decider = Decider::vouched(evil, Vouch::Key);
    desk.server.runtime.approvals().decide(id, Decision::deny(evil), &decider).await.unwrap();
    // Somebody else was faster, which is said while one looks.
    browser.until("document.querySelector('.ruling blockquote')").await;
    browser.until("/meanwhile/.test(document.querySelector('#toasts').textContent)").await;
    for path in ["/history", "/rules", &format!("/history?tool={}", "%3Cscript%3E"), "/?q=%3Cscript%3E%22"] {
        browser.go(&desk.server.url(path)).await;
        browser.until("document.readyState === 'complete' && document.querySelector('.bar')").await;
        assert_eq!(browser.eval(check).await, json!(true), "{path}");
    }
    browser.go(&desk.server.url("/live")).await;
    browser.until("document.querySelector('#live-state').textContent === 'connected'").await;
    let none = Call::new(evil, json!({})).by(Arc::new(Caller::agent("bot")));
    desk.server.runtime.call(none).await;
    browser.until("/<img src=x/.test(document.querySelector('#live').textContent)").await;
    assert_eq!(browser.eval(check).await, json!(true));
    assert_eq!(browser.complaints, Vec::<String>::new());
    // The policy is what it is thought to be: what is put in afterwards does not run either.
    browser
        .eval("(() => { const s = document.createElement('script'); s.textContent = 'window.hacked=1'; document.body.append(s); })()")
        .await;
    assert_eq!(browser.eval("window.hacked === undefined").await, json!(true));
    browser.tell("Runtime.evaluate", json!({ "expression": "1" })).await;
    assert!(
        browser.complaints.iter().any(|said| said.contains("Content Security Policy")),
        "{:?}",
        browser.complaints
    );
}

#[tokio::test]
async fn every_page_keeps_others_away() {
    let desk = desk().await;
    let id = desk.ask_mail("a@example.com").await;
    let (cookie, _) = desk.sign_in().await;
    let question = format!("/approvals/{id}");
    for path in [
        "/",
        &question,
        "/history",
        "/live",
        "/rules",
        "/sign-in",
        "/assets/page.js",
        "/assets/page.css",
        "/approvals/apr_x",
        "/history?state=x",
    ] {
        let reply = desk.get(path, &cookie).await;
        let policy = &reply.headers["content-security-policy"];
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self'"),
            "{path} {policy}"
        );
        assert!(
            policy.contains("frame-ancestors 'none'")
                && policy.contains("form-action 'self'")
                && !policy.contains("unsafe")
        );
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cache-control", "no-store"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.headers[name], value, "{path} {name}");
        }
        let inline = [" style=\"", "<style", " onclick", " onload", "javascript:"];
        assert!(path.starts_with("/assets") || !inline.iter().any(|bad| reply.body.contains(bad)), "{path}");
        assert!(
            !reply.body.contains("http://") && !reply.body.contains("https://") || path.ends_with(".js"),
            "{path}"
        );
    }
    // Strangers see the sign-in and its files, and nothing else. Those who call are strangers here.
    for path in ["/", &question, "/history", "/live", "/rules", "/changes"] {
        let reply = desk.get(path, &STRANGER).await;
        assert_eq!(reply.status, 303, "{path}");
        assert!(reply.headers["location"].starts_with("/sign-in"), "{reply:?}");
        let bearer = format!("Bearer {BOB}");
        let caller = desk.server.send(&format!("GET {path}"), &[("authorization", &bearer)], "").await;
        assert_eq!(caller.status, 303, "{path}");
    }
    assert_eq!(desk.get("/assets/../../Cargo.toml", &STRANGER).await.status, 401);
}
