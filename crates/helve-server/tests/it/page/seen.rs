//! What was approved is what goes out, as people see it: a tool that sends a draft which others can change.

use helve::json::sha256_hex;

use super::*;

const DRAFT: &str = "To: Ada Lovelace <ada@example.com>
Subject: Invoice 17, and the notes of a meeting that had a name so long that no phone shows it on one line
Attachments: invoice-17.pdf (48 kB)
  minutes.txt (2 kB)

Dear Ada,

please find the invoice attached: https://example.com/a/very/long/address/that/has/no/place/to/break/at?invoice=17&token=none
- net 30 days
- no discount

Best, R.\u{202e}";

const MOVE: &str = "Calendar: Work
Event: Board meeting

--- as it is
+++ as it would be
@@ -1,4 +1,4 @@
 Title: Board meeting
-Starts: 2026-11-17 09:00 Europe/Berlin
+Starts: 2026-11-18 09:00 Europe/Berlin
 Guests: ada@example.com, grace@example.com, and a line that goes on for longer than any phone is wide, as they do
";

/// A mail server with one draft.
#[derive(Clone)]
struct Post {
    draft: Arc<Mutex<Option<String>>>,
    sent: Arc<Mutex<Vec<String>>>,
}

impl Post {
    fn of(draft: &str) -> Self {
        Self { draft: Arc::new(Mutex::new(Some(draft.to_owned()))), sent: Arc::default() }
    }

    fn look(&self) -> Result<String, ToolError> {
        self.draft.lock().unwrap().clone().ok_or_else(|| ToolError::failed("there is no draft `d-1`"))
    }

    fn write(&self, draft: Option<&str>) {
        *self.draft.lock().unwrap() = draft.map(str::to_owned);
    }

    fn sent(&self) -> Vec<String> {
        self.sent.lock().unwrap().clone()
    }

    fn tool(&self, name: &str) -> Tool {
        let (shown, post) = (self.clone(), self.clone());
        Tool::builder(name)
            .description("Sends a draft as it is.")
            .input_schema(json!({ "type": "object", "properties": { "draft": { "type": "string" } } }))
            .risk(Risk::High)
            .facets([Facet::Egress, Facet::Mutates])
            .preview_with(move |_, _| {
                let draft = shown.look();
                async move {
                    let draft = draft?;
                    let fingerprint = sha256_hex(draft.as_bytes());
                    Ok(Preview::new(draft).with_fingerprint(fingerprint))
                }
            })
            .handler(move |_, context| {
                let post = post.clone();
                async move {
                    let draft = post.look()?;
                    context.still_approved(&sha256_hex(draft.as_bytes()))?;
                    post.sent.lock().unwrap().push(draft);
                    Ok(json!("sent"))
                }
            })
            .build()
            .unwrap()
    }
}

async fn desk_with(post: &Post, tool: &str) -> Desk {
    let desk = desk().await;
    desk.server.registry.register(helve::Layer::Project, post.tool(tool)).unwrap();
    desk
}

async fn ask(desk: &Desk, tool: &str) -> ApprovalId {
    desk.ask(Caller::agent("reviewer").session("s-7"), tool, json!({ "draft": "d-1" })).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_is_read_at_a_glance_in_light_and_dark_and_on_a_phone() {
    for (tool, draft) in [("mail/send_draft", DRAFT), ("calendar/update", MOVE)] {
        let desk = desk_with(&Post::of(draft), tool).await;
        let id = ask(&desk, tool).await;
        let name = tool.split('/').next().unwrap();
        let mut browser = desk.browser().await;
        let path = format!("/approvals/{id}");
        browser.go(&desk.server.url(&path)).await;
        browser.until("document.querySelector('.preview dl')").await;
        browser.picture(&format!("preview-{name}-light.png")).await;
        browser.scheme("dark").await;
        browser.picture(&format!("preview-{name}-dark.png")).await;
        browser.scheme("light").await;
        browser.size(360, 740).await;
        browser.go(&desk.server.url(&path)).await;
        browser.until(&format!("{PATH} === '{path}' && document.querySelector('.preview dl')")).await;
        let fits = "document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.preview, .preview *')].every((e) => e.scrollWidth <= innerWidth)";
        assert_eq!(browser.eval(fits).await, json!(true), "{tool}");
        browser.eval("document.querySelector('.preview').scrollIntoView()").await;
        browser.picture(&format!("preview-{name}-phone.png")).await;
        let colour = async |browser: &mut Browser, what: &str| {
            browser.eval(&format!("getComputedStyle(document.querySelector('.preview {what}')).color")).await
        };
        if tool == "calendar/update" {
            let [gone, new, stays] = ["del", "ins", "pre span:not(.at)"];
            let (gone, new) = (colour(&mut browser, gone).await, colour(&mut browser, new).await);
            let stays = colour(&mut browser, stays).await;
            assert!(gone != new && new != stays && gone != stays, "{gone} {new} {stays}");
        } else {
            // A list is no diff, and what hides is shown and counted.
            let text = browser.eval("document.querySelector('.preview pre').innerText").await;
            assert!(text.as_str().unwrap().contains("- net 30 days"), "{text}");
            let marks = "document.querySelectorAll('.preview mark.hid').length === 1 && /1 hidden/.test(document.querySelector('.notice.warn').innerText) && !document.querySelector('.preview del')";
            assert_eq!(browser.eval(marks).await, json!(true));
        }
        assert_eq!(browser.complaints, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_after_somebody_approved_it_on_the_page_does_not_go_out() {
    let post = Post::of(DRAFT);
    let desk = desk_with(&post, "mail/send_draft").await;
    let id = ask(&desk, "mail/send_draft").await;
    let (ada, token) = desk.sign_in().await;
    let shown = desk.get(&format!("/approvals/{id}"), &ada).await.body;
    assert!(shown.contains("has to be asked about again") && !shown.contains("data-key=\"e\""), "{shown}");
    // A person who sends the form all the same is told why.
    let edited = format!("csrf={token}&edited=%7B%22draft%22%3A%22d-2%22%7D");
    for action in ["edit", "approve"] {
        let refused = desk.form(&format!("/approvals/{id}/{action}"), &ada, &edited).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.body.contains("deny the call and say what to change"), "{refused:?}");
    }
    desk.form(&format!("/approvals/{id}/approve"), &ada, &format!("csrf={token}")).await;
    assert_eq!(desk.state(id).await, ApprovalState::Approved);
    post.write(Some("To: eve@evil.example\n\nHi"));
    let bearer = format!("Bearer {BOB}");
    let line = "POST /v1/calls";
    let body = json!({ "tool": "mail/send_draft", "arguments": { "draft": "d-1" } }).to_string();
    let refused = desk.server.send(line, &[("authorization", &bearer)], &body).await;
    assert!(
        refused.body.contains("\"approval_stale\"") && refused.body.contains("has changed"),
        "{refused:?}"
    );
    assert_eq!((desk.state(id).await, post.sent()), (ApprovalState::Used, vec![]));
    // Asked again, it is about the draft as it is now.
    let again = desk.server.send(line, &[("authorization", &bearer)], &body).await;
    assert!(again.body.contains("apr_") && !again.body.contains(&id.to_string()), "{again:?}");
    // And once there is none, nobody is asked.
    post.write(None);
    let gone = desk.server.send(line, &[("authorization", &bearer)], &body).await;
    assert!(gone.body.contains("there is no draft"), "{gone:?}");
    assert_eq!(post.sent(), [""; 0]);
}
