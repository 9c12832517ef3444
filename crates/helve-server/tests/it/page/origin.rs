//! Other servers of this machine. Browsers send cookies to every port of a host, so what they get must
//! be worth nothing.

use super::*;

/// What a server on another port got: the heads of all requests.
type Heard = Arc<Mutex<Vec<String>>>;

/// Another server of this machine, which notes what browsers send it and tries to set cookies of our name.
async fn neighbour(html: String) -> (u16, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, heard) = (listener.local_addr().unwrap().port(), Heard::default());
    let kept = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\
                set-cookie: helve_session=0; Path=/\r\nset-cookie: helve_session=1; Path=/approvals\r\n";
            let answer = format!("{head}content-length: {}\r\n\r\n{html}", html.len());
            let heard = Arc::clone(&kept);
            // Browsers open connections that they then do not use.
            tokio::spawn(async move {
                let mut buffer = [0; 16 << 10];
                let read = stream.read(&mut buffer).await.unwrap_or(0);
                heard.lock().unwrap().push(String::from_utf8_lossy(&buffer[..read]).into_owned());
                let _ = stream.write_all(answer.as_bytes()).await;
            });
        }
    });
    (port, heard)
}

/// The cookie as the browser's jar has it: `value` and `path`.
async fn jar(browser: &mut Browser) -> Vec<(String, String)> {
    let all = browser.tell("Storage.getCookies", json!({})).await;
    let own = all["cookies"].as_array().unwrap().iter().filter(|one| one["name"] == "helve_session");
    own.map(|one| {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        (text("value"), text("path"))
    })
    .collect()
}

/// Tries everything with a cookie's value: to read, to get what a form needs, to decide.
async fn try_everything(desk: &Desk, id: ApprovalId, value: &str) {
    let cookie = format!("helve_session={value}");
    let guess = format!("/~{}", "0".repeat(64));
    let as_place = format!("/~{value}");
    for place in ["", guess.as_str(), as_place.as_str()] {
        let by = SignIn { place: place.to_owned().into(), cookie: cookie.clone().into() };
        for path in [
            "/v1/me".to_owned(),
            "/".to_owned(),
            format!("/approvals/{id}"),
            "/history".to_owned(),
            "/live".to_owned(),
            "/rules".to_owned(),
            "/changes".to_owned(),
            "/v1/events".to_owned(),
            "/v1/approvals".to_owned(),
            format!("/v1/approvals/{id}"),
            "/v1/audit".to_owned(),
            "/v1/sessions".to_owned(),
            "/metrics".to_owned(),
        ] {
            let reply = desk.get(&path, &by).await;
            assert!(matches!(reply.status, 401 | 303), "{place}{path} {reply:?}");
            let said = format!("{:?}{}", reply.headers, reply.body);
            assert!(!said.contains("ada@example.com") && !said.contains("csrf"), "{place}{path} {reply:?}");
        }
        for deed in ["approve", "deny", "always", "edit"] {
            let reply =
                desk.form(&format!("/approvals/{id}/{deed}"), &by, &format!("csrf={value}&reason=x")).await;
            assert_eq!((reply.status, &*reply.headers["location"]), (303, "/sign-in"), "{place} {deed}");
        }
        let headers = [("authorization", "-"), ("cookie", cookie.as_str()), ("x-helve-csrf", value)];
        let line = format!("POST {place}/v1/approvals/{id}/decision");
        let reply = desk.server.send(&line, &headers, r#"{"decision":"approve"}"#).await;
        assert_eq!(reply.status, 401, "{place} {reply:?}");
        let reply = desk.server.send(&format!("POST {place}/sign-out"), &headers, "").await;
        assert_eq!(reply.status, 401, "nor does it sign anybody out");
    }
    assert_eq!((desk.state(id).await, desk.sent().len()), (ApprovalState::Pending, 0));
}

/// Signed in, and on the neighbour's page, whose script has tried what it can and says what it could read.
const PRIES: &str = r#"<script>
window.read = [];
const own = "OWN", id = "ID";
const open = window.open(own + "/approvals/" + id);
const frame = document.createElement("iframe");
frame.src = own + "/approvals/" + id;
document.documentElement.append(frame);
const attempts = ["/", "/v1/me", "/approvals/" + id, "/v1/approvals/" + id, "/sign-in", "/changes"].flatMap((path) => [
  ["GET", path, {}], ["GET", path, { mode: "no-cors" }],
]).concat([
  ["POST", `/approvals/${id}/approve`, { mode: "no-cors", body: new URLSearchParams({ csrf: "guess" }) }],
  ["POST", `/v1/approvals/${id}/decision`, { body: '{"decision":"approve"}', headers: { "content-type": "application/json" } }],
  ["POST", "/sign-in", { body: '{"code":"x"}', headers: { "content-type": "application/json" } }],
]);
Promise.all(attempts.map(([method, path, more]) =>
  fetch(own + path, { method, credentials: "include", ...more })
    .then((answer) => answer.text()).then((text) => text && read.push([path, text])).catch(() => {})
)).then(async () => {
  await Promise.all(["/", "/approvals/x", "/~0/", "/v1/me"].map((path) => fetch(path)));
  for (const look of [() => frame.contentDocument?.body.innerHTML, () => open.document.body.innerHTML,
    () => open.location.href, () => open.localStorage.length, () => localStorage.getItem("helve-place"),
    () => /helve_session=[0-9a-f]{64}/.test(document.cookie) || undefined]) {
    try { const seen = look(); if (seen) read.push(["looked", String(look), seen]); } catch {}
  }
  window.done = true;
});
</script>"#;

#[tokio::test(flavor = "multi_thread")]
async fn another_server_of_this_machine_gets_no_cookie_and_its_page_reads_and_decides_nothing() {
    let desk = desk().await;
    let id = desk.ask_mail("ada@example.com").await;
    let mut browser = desk.browser().await;
    let html = PRIES.replace("OWN", &desk.server.url("")).replace("ID", &id.to_string());
    let (port, heard) = neighbour(html).await;
    let own = jar(&mut browser).await;
    let [(value, path)] = own.as_slice() else { panic!("{own:?}") };
    assert!(path.starts_with("/~") && path.ends_with('/') && path.len() == 67, "{path}");
    // Of the same host, where the cookie would be sent to every port, and of another.
    for host in ["127.0.0.1", "localhost"] {
        browser.go(&format!("http://{host}:{port}/")).await;
        browser.until("window.done").await;
        assert_eq!(browser.eval("read").await, json!([]), "{host}");
    }
    let (heard, secret) = (heard.lock().unwrap().join("\n"), path.trim_matches(['/', '~']));
    assert!(heard.matches("GET /~0/ ").count() >= 2, "it was asked, as its own page wants: {heard}");
    assert!(!heard.contains(value.as_str()) && !heard.contains(secret), "{heard}");
    assert_eq!((desk.state(id).await, desk.sent().len()), (ApprovalState::Pending, 0));
    // Nor did its cookies of our name sign anybody out.
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser.until(&format!("{PATH} === '/approvals/{id}' && document.querySelector('.acts')")).await;
    assert!(jar(&mut browser).await.len() > 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cookie_in_other_hands_is_worth_nothing() {
    let desk = desk().await;
    let id = desk.ask_mail("ada@example.com").await;
    let mut browser = desk.browser().await;
    let (value, _) = jar(&mut browser).await.remove(0);
    // Out of the jar by itself.
    try_everything(&desk, id, &value).await;
    // And as if the browser gave it to every port: a neighbour gets it, and has nothing from it.
    let set = json!({ "name": "helve_session", "value": value, "url": "http://127.0.0.1/", "path": "/" });
    browser.tell("Network.setCookie", set).await;
    let (port, heard) = neighbour("<p>hello</p>".to_owned()).await;
    browser.go(&format!("http://127.0.0.1:{port}/")).await;
    browser.until("/hello/.test(document.body.innerText)").await;
    let heard = heard.lock().unwrap().join("\n");
    let got = heard.split("helve_session=").nth(1).map(|rest| &rest[..64]).unwrap_or_default();
    assert_eq!(got, value, "{heard}");
    try_everything(&desk, id, got).await;
    // Its owner still decides.
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser.until("document.querySelector('.acts')").await;
    settle(&mut browser).await;
    browser.press(&["a"]).await;
    desk.until_pending(0).await;
    assert_eq!(desk.state(id).await, ApprovalState::Approved);
}

#[tokio::test]
async fn the_place_of_a_sign_in_is_worth_nothing_without_the_cookie() {
    let desk = desk().await;
    let id = desk.ask_mail("ada@example.com").await;
    let ((ada, token), (eve, _)) = (desk.sign_in().await, desk.sign_in().await);
    for cookie in ["-", "helve_session=", &eve.cookie] {
        let by = SignIn { place: ada.place.clone(), cookie: cookie.to_owned().into() };
        assert_eq!(desk.get("/v1/me", &by).await.status, 401, "{cookie}");
        let shown = desk.get(&format!("/approvals/{id}"), &by).await;
        assert_eq!(shown.headers["location"], format!("/sign-in?next=/approvals/{id}"));
        let decided = desk.form(&format!("/approvals/{id}/approve"), &by, &format!("csrf={token}")).await;
        assert_eq!(decided.headers["location"], "/sign-in", "{cookie}");
    }
    assert_eq!(desk.state(id).await, ApprovalState::Pending);
    // What is said of a wrong address does not repeat it.
    let none = desk.get("/v1/nothing-here", &ada).await;
    assert_eq!(none.status, 404);
    assert!(none.body.contains("`/v1/nothing-here`") && !none.body.contains(&*ada.place), "{none:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_of_one_machine_keep_their_sign_ins_apart() {
    let (one, two) = (desk().await, desk().await);
    let (first, second) = (one.ask_mail("a@example.com").await, two.ask_mail("b@example.com").await);
    let mut browser = one.browser().await;
    browser.go(&two.server.url(&format!("/sign-in#{}", two.code().await))).await;
    browser.until("document.querySelector('main.inbox')").await;
    // Each address that others print goes on to its own sign-in, back and forth.
    for (desk, id) in [(&one, first), (&two, second), (&one, first)] {
        browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
        browser.until(&format!("{PATH} === '/approvals/{id}' && document.querySelector('.acts')")).await;
    }
    // Signed out of one: neither its addresses nor the way back lead in, and nothing is remembered.
    browser.eval("document.querySelector('#sign-out').requestSubmit()").await;
    browser.until("location.pathname === '/sign-in' && document.querySelector('#code')").await;
    assert_eq!(browser.eval("localStorage.getItem('helve-place')").await, Value::Null);
    browser.eval("history.back()").await;
    browser.until(&format!("location.href.endsWith('/sign-in?next=/approvals/{first}')")).await;
    browser.go(&two.server.url("/")).await;
    browser.until("document.querySelectorAll('#rows .row').length === 1").await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_for_one_question_leaves_the_sign_in_for_all_of_them_alone() {
    let desk = desk().await;
    let (id, other) = (desk.ask_mail("a@example.com").await, desk.ask_mail("b@example.com").await);
    let mut browser = desk.browser().await;
    let (mut key, text) = Key::generate("webhook for it", Purpose::SignIn, "tester", Timestamp::now());
    key.only = Some(id);
    desk.server.runtime.keys().create_key(Box::new(key), Caller::local()).await.unwrap();
    browser.go(&desk.server.url(&format!("/sign-in?next=/approvals/{id}#{}", text.reveal()))).await;
    browser.until(&format!("{PATH} === '/approvals/{id}' && document.querySelector('.acts')")).await;
    assert_eq!(browser.eval("document.querySelectorAll('#rows .row').length").await, json!(1));
    let slots = "Object.keys(localStorage).filter((name) => name.startsWith('helve-place')).sort()";
    assert_eq!(browser.eval(slots).await, json!(["helve-place", format!("helve-place-{id}")]));
    browser.go(&desk.server.url(&format!("/approvals/{other}"))).await;
    browser.until("document.querySelectorAll('#rows .row').length === 2").await;
    // A person with the link's sign-in alone comes back to its question by the address that all have.
    browser.eval("localStorage.removeItem('helve-place')").await;
    browser.go(&desk.server.url(&format!("/approvals/{id}"))).await;
    browser
        .until("document.querySelector('.acts') && document.querySelectorAll('#rows .row').length === 1")
        .await;
    assert_eq!(browser.complaints, Vec::<String>::new());
}
