//! OAuth against an authorization server and a protected resource of the test's own.

pub(crate) mod authority;
mod refresh;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use helve_mcp::oauth::{
    Identity, LoggedIn, LoginOptions, Next, OAuthError, Proof, Session, Settings, Signature, TokenStore,
};
use helve_net::{Client, NetPolicy, Request, header};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use url::Url;

use self::authority::{Authority, Ways};

fn client() -> Client {
    Client::new(NetPolicy::allowing(["127.0.0.1"]).unwrap()).unwrap()
}

fn session(authority: &Authority, folder: &Path) -> Session {
    session_as(authority, folder, Identity::default())
}

fn session_as(authority: &Authority, folder: &Path, identity: Identity) -> Session {
    let settings = Settings { identity, ..Settings::new(authority.server(), "ann") };
    Session::new(settings, client(), TokenStore::open(folder).unwrap()).unwrap()
}

/// The person's browser: goes where it is sent.
pub(crate) fn browse(url: &Url) {
    let request = Request::get(url.as_str()).unwrap();
    tokio::spawn(async move { client().fetch(request).await });
}

async fn login(session: &Session) -> Result<LoggedIn, OAuthError> {
    session.login(LoginOptions::default(), browse).await
}

/// What the resource says to a token.
async fn status(authority: &Authority, token: &SecretString) -> u16 {
    let value = format!("Bearer {}", token.expose_secret()).parse().unwrap();
    let request = Request::get(authority.server().as_str()).unwrap().header(header::AUTHORIZATION, value);
    client().fetch(request).await.unwrap().status.as_u16()
}

async fn bearer(session: &Session) -> SecretString {
    session.bearer().await.unwrap().expect("somebody has logged in")
}

#[tokio::test]
async fn a_login_registers_agrees_and_brings_a_token_that_works() {
    let authority = Authority::start(Ways::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    assert!(session.bearer().await.unwrap().is_none());
    let next = session.challenged(&authority.challenge(), None).await.unwrap();
    assert!(matches!(next, Next::NeedsLogin { .. }), "{next:?}");

    let logged_in = login(&session).await.unwrap();
    assert_eq!(logged_in.issuer, Some(authority.issuer()));
    assert!(logged_in.renewable);
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);
    {
        let seen = authority.seen();
        assert_eq!(seen.problems, Vec::<String>::new());
        assert_eq!(seen.authorized[0]["resource"], authority.server().as_str());
        assert_eq!(seen.registered[0]["client_name"], "Helve");
        let redirect = &seen.authorized[0]["redirect_uri"];
        assert!(redirect.starts_with("http://127.0.0.1:"), "{redirect}");
    }
    // Another process finds it, and another principal does not.
    let again = self::session(&authority, folder.path());
    assert_eq!(bearer(&again).await.expose_secret(), bearer(&session).await.expose_secret());
    let bob = Settings::new(authority.server(), "bob");
    let bob = Session::new(bob, client(), TokenStore::open(folder.path()).unwrap()).unwrap();
    assert!(bob.bearer().await.unwrap().is_none());

    assert!(session.logout().await.unwrap());
    assert!(session.bearer().await.unwrap().is_none());
}

#[tokio::test]
async fn metadata_is_found_in_each_place() {
    let resource_places = [
        ("/.well-known/oauth-protected-resource/mcp", true),
        ("/.well-known/oauth-protected-resource/mcp", false),
        ("/.well-known/oauth-protected-resource", false),
        ("/somewhere/else.json", true),
    ];
    let metadata_places = [
        ("", "/.well-known/oauth-authorization-server"),
        ("", "/.well-known/openid-configuration"),
        ("/tenant", "/.well-known/oauth-authorization-server/tenant"),
        ("/tenant", "/.well-known/openid-configuration/tenant"),
        ("/tenant", "/tenant/.well-known/openid-configuration"),
    ];
    for (resource_metadata, challenge_says) in resource_places {
        for (issuer_path, metadata) in metadata_places {
            let ways = Ways { resource_metadata, challenge_says, issuer_path, metadata, ..Ways::default() };
            let authority = Authority::start(ways).await;
            let folder = tempfile::tempdir().unwrap();
            let session = session(&authority, folder.path());
            // A login that nothing was refused before has to find its way alone.
            if challenge_says {
                session.challenged(&authority.challenge(), None).await.unwrap();
            }
            let logged_in = login(&session).await;
            assert!(logged_in.is_ok(), "{resource_metadata} {challenge_says} {metadata}: {logged_in:?}");
            assert_eq!(status(&authority, &bearer(&session).await).await, 200);
        }
    }
}

#[tokio::test]
async fn a_client_document_stands_in_for_registration_where_it_is_read() {
    let document = Url::parse("https://helve.example/client.json").unwrap();
    let identity = Identity::Introduced { metadata_url: Some(document.clone()) };
    for reads in [true, false] {
        let edit_metadata: fn(&mut Value) = match reads {
            true => |metadata| metadata["client_id_metadata_document_supported"] = json!(true),
            false => |_| (),
        };
        let authority = Authority::start(Ways { edit_metadata, ..Ways::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        login(&session_as(&authority, folder.path(), identity.clone())).await.unwrap();
        let seen = authority.seen();
        assert_eq!(seen.registered.is_empty(), reads);
        assert_eq!(seen.authorized[0]["client_id"] == document.as_str(), reads);
    }
}

#[tokio::test]
async fn a_configured_client_is_shown_only_to_its_own_authorization_server() {
    let authority = Authority::start(Ways {
        secret: Some("given-by-hand"),
        edit_metadata: |metadata| _ = metadata.as_object_mut().unwrap().remove("registration_endpoint"),
        ..Ways::default()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let identity = |issuer: Option<&str>| Identity::Registered {
        client_id: "by-hand".to_owned(),
        client_secret: Some("given-by-hand".into()),
        issuer: issuer.map(str::to_owned),
    };
    let stranger = session_as(&authority, folder.path(), identity(Some("https://other.example")));
    let error = login(&stranger).await.unwrap_err().to_string();
    assert!(error.contains("not the one that the client id is from"), "{error}");
    assert!(authority.seen().authorized.is_empty());

    for issuer in [None, Some(authority.issuer().as_str())] {
        let session = session_as(&authority, folder.path(), identity(issuer));
        login(&session).await.unwrap();
        assert_eq!(status(&authority, &bearer(&session).await).await, 200);
    }
    let error = login(&session(&authority, folder.path())).await.unwrap_err().to_string();
    assert!(error.contains("lets no client register"), "{error}");
}

#[tokio::test]
async fn an_answer_from_elsewhere_is_never_redeemed() {
    type Edit = fn(&mut Vec<(&'static str, String)>);
    let cases: [(Edit, &str); 5] = [
        (|answer| answer[2].1 = "https://evil.example".to_owned(), "another authorization server"),
        (|answer| answer[2].1.push('/'), "another authorization server"),
        (|answer| _ = answer.pop(), "does not say which authorization server"),
        (|answer| answer[0] = ("error", "access_denied".to_owned()), "`access_denied`"),
        (
            |answer| {
                answer[0] = ("error", "access_denied".to_owned());
                answer[2].1 = "https://evil.example".to_owned();
            },
            "another authorization server",
        ),
    ];
    for (edit_redirect, told) in cases {
        let authority = Authority::start(Ways { edit_redirect, ..Ways::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        let session = session(&authority, folder.path());
        let error = login(&session).await.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert!(authority.seen().token_requests.is_empty(), "{told}");
        assert!(session.bearer().await.unwrap().is_none());
    }
}

/// Logs in, and what the person's browser showed in the end.
async fn login_and_page(session: &Session) -> (Result<LoggedIn, OAuthError>, String) {
    let (tell, page) = tokio::sync::oneshot::channel();
    let open = |url: &Url| {
        let request = Request::get(url.as_str()).unwrap();
        tokio::spawn(async move {
            let shown = client().fetch(request).await.unwrap();
            tell.send(String::from_utf8(shown.body.to_vec()).unwrap()).unwrap();
        });
    };
    let logged_in = session.login(LoginOptions::default(), open).await;
    (logged_in, page.await.unwrap())
}

#[tokio::test]
async fn a_login_that_gets_no_token_says_why_and_so_does_the_browser_that_it_failed() {
    type Edit = fn(&mut Value);
    type Raw = fn() -> Response<Body>;
    let nowhere: Edit = |metadata| metadata["token_endpoint"] = json!("http://127.0.0.1:1/token");
    let forbidden: Edit = |metadata| metadata["token_endpoint"] = json!("https://127.0.0.2/token");
    let huge: Raw = || Response::new(Body::from(vec![b' '; 2 << 20]));
    let no_token: Raw = || Response::builder().status(500).body(Body::from("{}")).unwrap();
    let cases: [(Edit, Option<Raw>, &str); 4] = [
        (nowhere, None, "no connection to `127.0.0.1"),
        (forbidden, None, "127.0.0.2"),
        (|_| (), Some(huge), "is larger than 1048576 bytes"),
        (|_| (), Some(no_token), "the login failed"),
    ];
    for (edit_metadata, raw_token, told) in cases {
        let authority = Authority::start(Ways { edit_metadata, raw_token, ..Ways::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        let (logged_in, page) = login_and_page(&session(&authority, folder.path())).await;
        let error = logged_in.unwrap_err().to_string();
        assert!(error.contains(told) && !error.contains("code-secret"), "{error}");
        assert!(page.contains("Not logged in") && !page.contains("Thank you"), "{told}: {page}");
    }
    let authority = Authority::start(Ways::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let (logged_in, page) = login_and_page(&session(&authority, folder.path())).await;
    assert!(logged_in.is_ok() && page.contains("Thank you"), "{page}");
}

#[tokio::test]
async fn a_wrong_state_is_waited_past_and_a_login_ends_in_time() {
    let edit_redirect: fn(&mut Vec<(&'static str, String)>) = |answer| answer[1].1 = "guessed".to_owned();
    let authority = Authority::start(Ways { edit_redirect, ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    let options = LoginOptions { patience: Duration::from_millis(300), ..LoginOptions::default() };
    let error = session.login(options, browse).await.unwrap_err();
    assert!(matches!(error, OAuthError::TimedOut), "{error}");
    assert!(authority.seen().token_requests.is_empty());
    // Pasted by a person, it is told at once.
    let pasted = "http://127.0.0.1:1/callback?code=x&state=guessed".to_owned();
    let options = LoginOptions { pasted: Some(Box::pin(async { pasted })), ..LoginOptions::default() };
    let error = session.login(options, |_| ()).await.unwrap_err().to_string();
    assert!(error.contains("another login"), "{error}");
}

#[tokio::test]
async fn without_a_browser_the_address_is_pasted() {
    let authority = Authority::start(Ways::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    let (tell, told) = tokio::sync::oneshot::channel::<Url>();
    // The browser of another machine: it stops where it cannot connect, and shows that address.
    let pasted = Box::pin(async move {
        let request =
            Request::get(told.await.unwrap().as_str()).unwrap().redirects(helve_net::Redirects::Stop);
        let response = client().fetch(request).await.unwrap();
        response.header(header::LOCATION).unwrap().to_owned()
    });
    let options = LoginOptions { pasted: Some(pasted), ..LoginOptions::default() };
    session.login(options, |url| tell.send(url.clone()).unwrap()).await.unwrap();
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);
}

#[tokio::test]
async fn a_step_up_asks_for_all_scopes_and_not_for_ever() {
    let edit_resource: fn(&mut Value) = |document| document["scopes_supported"] = json!(["read"]);
    let edit_metadata: fn(&mut Value) =
        |metadata| metadata["scopes_supported"] = json!(["read", "offline_access"]);
    let authority = Authority::start(Ways { edit_resource, edit_metadata, ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    login(&session).await.unwrap();
    assert_eq!(authority.seen().authorized[0]["scope"], "read offline_access");

    authority.ways().scope_needed = Some("write");
    let token = bearer(&session).await;
    assert_eq!(status(&authority, &token).await, 403);
    let challenge = r#"Bearer error="insufficient_scope", scope="write""#;
    let Next::StepUp { scope } = session.challenged(challenge, Some(&token)).await.unwrap() else {
        panic!("no step-up")
    };
    session.login(LoginOptions::step_up(&scope), browse).await.unwrap();
    assert_eq!(authority.seen().authorized[1]["scope"], "read offline_access write");
    let token = bearer(&session).await;
    assert_eq!(status(&authority, &token).await, 200);
    let error = session.challenged(challenge, Some(&token)).await.unwrap_err();
    assert!(matches!(error, OAuthError::ScopeRefused { .. }), "{error}");

    let many: Vec<String> = (0..100).map(|n| format!("s{n}")).collect();
    let greedy = format!(r#"Bearer error="insufficient_scope", scope="{}""#, many.join(" "));
    assert!(session.challenged(&greedy, Some(&token)).await.is_err());
    assert!(session.challenged(&"x".repeat(100_000), Some(&token)).await.is_err());
}

#[tokio::test]
async fn another_authorization_server_gets_nothing_of_the_old_one() {
    let old = Authority::start(Ways { expires_in: Some(0), ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&old, folder.path());
    login(&session).await.unwrap();
    // The same server now names another issuer.
    old.ways().issuer_path = "/new";
    old.ways().metadata = "/.well-known/oauth-authorization-server/new";
    let error = session.bearer().await.unwrap_err();
    assert!(error.to_string().contains("changed its authorization server"), "{error}");
    assert_eq!(old.seen().refreshes, 0);
    login(&session).await.unwrap();
    assert_eq!(old.seen().registered.len(), 2);
}

#[tokio::test]
async fn tampered_tokens_are_an_error_and_not_a_missing_login() {
    let authority = Authority::start(Ways::default()).await;
    let folder = tempfile::tempdir().unwrap();
    login(&session(&authority, folder.path())).await.unwrap();
    let file = folder.path().join("oauth.tokens");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let error = session(&authority, folder.path()).bearer().await.unwrap_err();
    assert!(
        matches!(&error, OAuthError::Store { .. }) && error.to_string().contains("was changed"),
        "{error}"
    );
}

#[tokio::test]
async fn hostile_metadata_ends_in_a_clear_error() {
    let edited = |edit_metadata: fn(&mut Value)| Ways { edit_metadata, ..Ways::default() };
    let resource = |edit_resource: fn(&mut Value)| Ways { edit_resource, ..Ways::default() };
    let raw = |raw: fn() -> Response<Body>| Ways { raw_metadata: Some(raw), ..Ways::default() };
    let cases = [
        (raw(|| Response::new(Body::from(vec![b' '; 2 << 20]))), "larger than"),
        (raw(|| redirect("/.well-known/oauth-authorization-server")), "redirects"),
        (raw(|| redirect("http://169.254.169.254/latest/meta-data")), "rejected"),
        (raw(|| Response::new(Body::from("[".repeat(100_000)))), "none published usable metadata"),
        (edited(|m| m["token_endpoint"] = json!("http://as.example/token")), "token endpoint"),
        (edited(|m| m["authorization_endpoint"] = json!("http://as.example/a")), "authorization endpoint"),
        (edited(|m| m["authorization_endpoint"] = json!("javascript:alert(1)")), "authorization endpoint"),
        (edited(|m| m["authorization_endpoint"] = json!("file:///bin/sh")), "authorization endpoint"),
        (edited(|m| m["registration_endpoint"] = json!("http://as.example/r")), "registration endpoint"),
        (edited(|m| m["authorization_endpoint"] = json!("https://as.example/a?state=x")), "state of its own"),
        (edited(|m| m["issuer"] = json!("https://evil.example")), "issuer mismatch"),
        (edited(|m| _ = m.as_object_mut().unwrap().remove("issuer")), "missing required issuer"),
        (edited(|m| m["code_challenge_methods_supported"] = json!(["plain"])), "PKCE"),
        (edited(|m| _ = m.as_object_mut().unwrap().remove("code_challenge_methods_supported")), "PKCE"),
        // Loopback, but not what the policy lists.
        (resource(|r| r["authorization_servers"] = json!(["http://127.0.0.2:9"])), "127.0.0.2"),
        (
            resource(|r| r["authorization_servers"] = json!(["http://10.0.0.1/"])),
            "none published usable metadata",
        ),
        (resource(|r| r["authorization_servers"] = json!(["http://192.0.2.1.example/"])), "https"),
        (resource(|r| r["resource"] = json!("https://other.example/mcp")), "resource mismatch"),
    ];
    for (ways, told) in cases {
        let authority = Authority::start(ways).await;
        let folder = tempfile::tempdir().unwrap();
        let session = session(&authority, folder.path());
        session.challenged(&authority.challenge(), None).await.unwrap();
        let opened = Arc::new(Mutex::new(None));
        let error = session.login(LoginOptions::default(), |url| *opened.lock().unwrap() = Some(url.clone()));
        let error = error.await.unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
        assert!(error.len() < 700, "{error}");
        assert_eq!(*opened.lock().unwrap(), None, "{told}");
        assert!(authority.seen().token_requests.is_empty(), "{told}");
    }
}

fn redirect(to: &str) -> Response<Body> {
    Response::builder().status(302).header("location", to).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_server_without_metadata_says_so_and_http_servers_elsewhere_are_refused() {
    let ways =
        Ways { resource_metadata: "/none", challenge_says: false, metadata: "/none", ..Ways::default() };
    let authority = Authority::start(ways).await;
    let folder = tempfile::tempdir().unwrap();
    let error = login(&session(&authority, folder.path())).await.unwrap_err().to_string();
    assert!(error.contains("publishes nothing"), "{error}");

    let settings = Settings::new(Url::parse("http://mcp.example/mcp").unwrap(), "ann");
    let store = TokenStore::open(folder.path()).unwrap();
    let error = Session::new(settings, client(), store).unwrap_err();
    assert!(matches!(error, OAuthError::Insecure { .. }), "{error}");
}

#[tokio::test]
async fn a_machine_proves_itself_by_secret() {
    let edit_metadata: fn(&mut Value) =
        |metadata| metadata["token_endpoint_auth_methods_supported"] = json!(["client_secret_basic"]);
    let ways = Ways { edit_metadata, secret: Some("machine-secret"), ..Ways::default() };
    let authority = Authority::start(ways).await;
    let folder = tempfile::tempdir().unwrap();
    let identity = |secret: &str| Identity::Machine {
        client_id: "machine".to_owned(),
        proof: Proof::Secret(secret.into()),
        issuer: None,
    };
    let error = session_as(&authority, folder.path(), identity("wrong-secret")).bearer().await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("wrong-secret"), "{error:?}");

    let session = session_as(&authority, folder.path(), identity("machine-secret"));
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);
    let used = bearer(&session).await;
    authority.revoke_all();
    assert_eq!(session.challenged(&authority.challenge(), Some(&used)).await.unwrap(), Next::Retry);
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);
    let more = r#"Bearer error="insufficient_scope", scope="write""#;
    assert_eq!(session.challenged(more, None).await.unwrap(), Next::Retry);
    assert_eq!(authority.seen().token_requests.last().unwrap()["scope"], "write");
    assert!(login(&session).await.unwrap_err().to_string().contains("nobody needs to log in"));
}

#[tokio::test]
async fn a_machine_proves_itself_by_key() {
    let authority = Authority::start(Ways::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{encoded}\n-----END PRIVATE KEY-----\n");
    let proof = Proof::Key { pem: pem.into(), signature: Signature::Es256 };
    let identity = Identity::Machine { client_id: "machine".to_owned(), proof, issuer: None };
    let session = session_as(&authority, folder.path(), identity);
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);

    let sent = authority.seen().token_requests[0].clone();
    let (signed, seal) = sent["client_assertion"].rsplit_once('.').unwrap();
    let decode =
        |text: &str| base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, text).unwrap();
    let key = ring::signature::UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
    key.verify(signed.as_bytes(), &decode(seal)).unwrap();
    let claims: Value = serde_json::from_slice(&decode(signed.split_once('.').unwrap().1)).unwrap();
    assert_eq!(claims["aud"], authority.issuer());
    assert!(!sent.contains_key("client_id"), "the assertion alone says who");
}

#[tokio::test]
async fn no_secret_is_logged() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer({
            let log = log.clone();
            move || log.clone()
        })
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let authority =
        Authority::start(Ways { expires_in: Some(0), secret: Some("of-the-client"), ..Ways::default() })
            .await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    login(&session).await.unwrap();
    bearer(&session).await;
    tracing::info!("the log works");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the log works"));
    for secret in ["code-secret", "access-token", "refresh-token", "id-token", "of-the-client"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
