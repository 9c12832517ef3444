//! A real issuer on loopback, reached through the guarded client; and tokens that lie.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use helve::approvals::Decider;
use helve_net::NetPolicy;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::json;

use super::*;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

/// A key that signs.
enum Signer {
    Ed(Ed25519KeyPair),
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    fn ed() -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::Ed(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    fn ec() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, document.as_ref(), &random);
        Self::Ec(pair.unwrap())
    }

    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::from_pkcs8(include_bytes!("test-rsa.pk8")).unwrap())
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Ed(_) => "EdDSA",
            Self::Ec(_) => "ES256",
            Self::Rsa(_) => "RS256",
        }
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(pair.public_key()) })
            }
            Self::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "alg": "ES256",
                        "x": base64(&point[1..33]), "y": base64(&point[33..]) })
            }
            Self::Rsa(pair) => {
                let parts: PublicKeyComponents<Vec<u8>> = pair.public().into();
                json!({ "kty": "RSA", "kid": id, "n": base64(parts.n), "e": base64(parts.e) })
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
        let signature = match self {
            Self::Ed(pair) => pair.sign(signed.as_bytes()).as_ref().to_vec(),
            Self::Ec(pair) => pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap().as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
                    .unwrap();
                signature
            }
        };
        format!("{signed}.{}", base64(signature))
    }
}

/// An issuer that publishes what a test puts there, and counts how often it is asked.
struct Desk {
    url: String,
    keys: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicUsize>,
}

impl Desk {
    async fn open(keys: Vec<Value>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (keys, asked) = (Arc::new(Mutex::new(keys)), Arc::new(AtomicUsize::new(0)));
        let (published, counted) = (Arc::clone(&keys), Arc::clone(&asked));
        let issuer = url.clone();
        let configuration = move || async move {
            axum::Json(json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") }))
        };
        let jwks = move || async move {
            counted.fetch_add(1, Ordering::SeqCst);
            axum::Json(json!({ "keys": *published.lock().unwrap() }))
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(jwks));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, keys, asked }
    }

    fn config(&self) -> JwtConfig {
        JwtConfig {
            issuer: self.url.clone(),
            audience: "helve".to_owned(),
            roles_claim: Some("roles".to_owned()),
            ..JwtConfig::default()
        }
    }

    fn issuer(&self, config: JwtConfig) -> Issuer {
        let policy = NetPolicy::allowing(["127.0.0.1"]).unwrap();
        Issuer::new(config, Client::new(policy).unwrap()).unwrap()
    }

    fn claims(&self) -> Value {
        let now = Timestamp::now().as_second();
        json!({ "iss": self.url, "aud": "helve", "sub": "ada", "exp": now + 300, "roles": ["auditor"] })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Issuer {
    async fn visitor(&self, token: &str) -> Option<(Visitor, Timestamp)> {
        match self.worth(token).await {
            Worth::Good(vouched) => Some((vouched.visitor, vouched.until)),
            Worth::NoScope | Worth::Nothing => None,
        }
    }
}

fn name(found: Option<(Visitor, Timestamp)>) -> Option<String> {
    found.and_then(|(visitor, _)| visitor.person().principal.clone())
}

#[tokio::test]
async fn tokens_of_the_issuer_come_in_as_callers() {
    let signers = [Signer::ed(), Signer::ec(), Signer::rsa()];
    let desk = Desk::open(signers.iter().map(|one| one.jwk(one.name())).collect()).await;
    let issuer = desk.issuer(desk.config());
    for signer in &signers {
        let header = json!({ "alg": signer.name(), "kid": signer.name() });
        let token = signer.sign(&header, &desk.claims());
        let claims = desk.claims();
        let Some((Visitor::Caller(caller), until)) = issuer.visitor(&token).await else {
            panic!("{}", signer.name())
        };
        let remembered = issuer.visitor(&token).await.map(|(_, until)| until);
        assert_eq!(remembered, Some(until), "a stream ends with its token, however it was opened");
        assert!((until.as_second() - claims["exp"].as_i64().unwrap()).abs() <= 2);
        assert_eq!(caller.principal.as_deref(), Some("ada"));
        assert_eq!((caller.roles.as_slice(), caller.channel), (&["auditor".to_owned()][..], Channel::Http));
        // Of one sort there is only one, so it need not say which.
        let token = signer.sign(&json!({ "alg": signer.name() }), &desk.claims());
        assert_eq!(name(issuer.visitor(&token).await).as_deref(), Some("ada"), "{}", signer.name());
    }
    assert_eq!(desk.asked(), 1, "the keys are fetched once");
}

#[tokio::test]
async fn what_is_not_as_it_should_be_is_refused() {
    let (signer, other) = (Signer::ed(), Signer::ed());
    let desk = Desk::open(vec![signer.jwk("a"), Signer::ed().jwk("b")]).await;
    let issuer = desk.issuer(desk.config());
    let header = || json!({ "alg": "EdDSA", "kid": "a" });
    let good = signer.sign(&header(), &desk.claims());
    assert_eq!(name(issuer.visitor(&good).await).as_deref(), Some("ada"));
    let with = |name: &str, value: Value| {
        let mut claims = desk.claims();
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value,
        }
        claims
    };
    let now = Timestamp::now().as_second();
    for claims in [
        with("iss", json!("http://evil.example.com")),
        with("iss", json!(format!("{}/", desk.url))),
        with("iss", Value::Null),
        with("aud", json!("other")),
        with("aud", json!(["other", 7])),
        with("aud", Value::Null),
        with("exp", json!(now - 60)),
        with("exp", Value::Null),
        with("exp", json!("never")),
        with("exp", json!(1e300)),
        with("nbf", json!(now + 300)),
        with("nbf", json!("soon")),
        with("iat", json!(now + 300)),
        with("sub", Value::Null),
        with("sub", json!("")),
        with("sub", json!("local")),
        with("sub", json!("LOCAL")),
        with("sub", json!("a\nb")),
        with("sub", json!("a".repeat(129))),
        with("sub", json!(7)),
    ] {
        let token = signer.sign(&header(), &claims);
        assert_eq!(name(issuer.visitor(&token).await), None, "{claims}");
    }
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "None", "kid": "a" }),
        json!({ "alg": "HS256", "kid": "a" }),
        json!({ "alg": "RS256", "kid": "a" }),
        json!({ "alg": "ES256", "kid": "a" }),
        json!({ "kid": "a" }),
        json!({ "alg": "EdDSA" }),
        json!({ "alg": "EdDSA", "kid": "c" }),
        json!({ "alg": "EdDSA", "kid": 7 }),
        json!({ "alg": "EdDSA", "kid": "b" }),
        json!({ "alg": "EdDSA", "kid": "a", "crit": ["exp"] }),
        json!({ "alg": "EdDSA", "kid": "a", "crit": [] }),
        json!({ "alg": "EdDSA", "kid": "a", "b64": false }),
    ] {
        let token = signer.sign(&header, &desk.claims());
        assert_eq!(name(issuer.visitor(&token).await), None, "{header}");
    }
    let stranger = other.sign(&header(), &desk.claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let large = signer.sign(&header(), &with("x", json!("a".repeat(9_000))));
    let doubled = format!(
        "{}.{}",
        base64(r#"{"alg":"none","alg":"EdDSA","kid":"a"}"#),
        base64(desk.claims().to_string())
    );
    for token in [
        stranger.as_str(),
        signed,
        &format!("{signed}."),
        &format!("{signed}.{signature}.{signature}"),
        &format!("{signed}.{}", base64([0; 64])),
        &format!("{doubled}.{signature}"),
        &large,
        "",
        "..",
        "a.b.c",
    ] {
        assert_eq!(name(issuer.visitor(token).await), None, "{token}");
    }
    // Whatever they named, the issuer was asked at most once more.
    assert!(desk.asked() <= 2, "{}", desk.asked());
}

#[tokio::test]
async fn new_keys_are_found_and_old_ones_end() {
    let (old, new) = (Signer::ec(), Signer::ec());
    let desk = Desk::open(vec![old.jwk("old")]).await;
    let mut issuer = desk.issuer(desk.config());
    let token = |signer: &Signer, id: &str, name: &str| {
        let mut claims = desk.claims();
        claims["sub"] = json!(name);
        signer.sign(&json!({ "alg": "ES256", "kid": id }), &claims)
    };
    assert!(issuer.visitor(&token(&old, "old", "ada")).await.is_some());
    *desk.keys.lock().unwrap() = vec![new.jwk("new")];
    assert!(issuer.visitor(&token(&new, "new", "ada")).await.is_none(), "not again within a minute");
    assert_eq!(desk.asked(), 1);
    issuer.keys.fetch_every = Duration::ZERO;
    assert!(issuer.visitor(&token(&new, "new", "ada")).await.is_some());
    assert_eq!(desk.asked(), 2);
    assert!(issuer.visitor(&token(&old, "old", "bob")).await.is_none(), "what was taken away is gone");
}

#[tokio::test]
async fn only_who_has_the_role_for_it_decides_and_calls_nothing() {
    let signer = Signer::ed();
    let desk = Desk::open(vec![signer.jwk("a")]).await;
    let token = |roles: Value| {
        let mut claims = desk.claims();
        claims["roles"] = roles;
        signer.sign(&json!({ "alg": "EdDSA", "kid": "a" }), &claims)
    };
    let plain = desk.issuer(desk.config());
    for roles in [json!(["approver"]), json!("approver admin")] {
        assert!(matches!(plain.visitor(&token(roles)).await, Some((Visitor::Caller(_), _))));
    }
    let config = JwtConfig { approver_role: Some("gatekeeper".to_owned()), ..desk.config() };
    let deciding = desk.issuer(config);
    let Some((Visitor::Decider(decides), _)) = deciding.visitor(&token(json!(["gatekeeper"]))).await else {
        panic!("nobody decides");
    };
    let vouch = Vouch::Token(desk.url.clone());
    assert_eq!(decides.decider, Decider::vouched("ada", vouch), "records say that it was no key");
    assert!(matches!(deciding.visitor(&token(json!(["approver"]))).await, Some((Visitor::Caller(_), _))));
}

#[tokio::test]
async fn an_issuer_that_the_policy_forbids_is_not_asked() {
    let signer = Signer::ed();
    let desk = Desk::open(vec![signer.jwk("a")]).await;
    let issuer = Issuer::new(desk.config(), Client::new(NetPolicy::default()).unwrap()).unwrap();
    let token = signer.sign(&json!({ "alg": "EdDSA", "kid": "a" }), &desk.claims());
    assert!(issuer.visitor(&token).await.is_none());
    assert_eq!(desk.asked(), 0);
}

#[test]
fn half_a_configuration_is_refused() {
    let client = || Client::new(NetPolicy::default()).unwrap();
    let config = |issuer: &str, audience: &str| JwtConfig {
        issuer: issuer.to_owned(),
        audience: audience.to_owned(),
        ..JwtConfig::default()
    };
    for (issuer, audience) in [("", "a"), ("https://a.example.com", ""), ("file:///etc", "a"), ("a", "a")] {
        assert!(Issuer::new(config(issuer, audience), client()).is_err(), "{issuer} {audience}");
    }
}

fn scopes() -> BTreeMap<String, Scope> {
    let scope = |tools: &[&str], roles: &[&str]| Scope {
        tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
        roles: roles.iter().map(|role| (*role).to_owned()).collect(),
    };
    [("reads", scope(&["files/read", "web/*"], &[])), ("all", scope(&["*"], &["auditor"]))]
        .map(|(name, scope)| (name.to_owned(), scope))
        .into()
}

#[tokio::test]
async fn scopes_say_what_a_token_is_good_for() {
    let signer = Signer::ed();
    let desk = Desk::open(vec![signer.jwk("a")]).await;
    let config = JwtConfig {
        scopes: scopes(),
        approver_role: Some("gatekeeper".to_owned()),
        approver_scope: Some("decides".to_owned()),
        ..desk.config()
    };
    let issuer = desk.issuer(config);
    let worth = async |claim: &str, scope: Value, roles: Value| {
        let mut claims = desk.claims();
        (claims[claim], claims["roles"]) = (scope, roles);
        issuer.worth(&signer.sign(&json!({ "alg": "EdDSA", "kid": "a" }), &claims)).await
    };
    for (claim, scope, tools) in [
        ("scope", json!("reads"), vec!["files/read", "web/*"]),
        ("scope", json!("openid reads other"), vec!["files/read", "web/*"]),
        ("scp", json!(["all"]), vec!["*"]),
        ("scp", json!("all reads"), vec!["*", "files/read", "web/*"]),
    ] {
        let Worth::Good(Vouched { visitor: Visitor::Caller(caller), .. }) =
            worth(claim, scope, json!([])).await
        else {
            panic!("{claim} {tools:?}")
        };
        let tools = tools.into_iter().map(str::to_owned).collect();
        assert_eq!(caller.access, helve::Access::Only(tools));
        assert_eq!(caller.has_role("auditor"), caller.access.allows(&helve::ToolName::new("x").unwrap()));
    }
    for scope in [
        json!(""),
        json!("Reads"),
        json!("read"),
        json!(["reads x"]),
        json!(7),
        json!(null),
        json!("decides"),
    ] {
        assert!(matches!(worth("scope", scope.clone(), json!([])).await, Worth::NoScope), "{scope}");
    }
    // A person who decides signs in with a client that calls: its token calls, whatever it asks for at first.
    for (scope, decides) in [("reads", false), ("all reads", false), ("decides", true), ("decides all", true)]
    {
        let Worth::Good(vouched) = worth("scope", json!(scope), json!(["gatekeeper"])).await else {
            panic!("{scope}")
        };
        assert_eq!(matches!(vouched.visitor, Visitor::Decider(_)), decides, "{scope}");
    }
    let has = ["reads".to_owned()];
    for (tool, needed) in
        [("files/read", None), ("web/fetch", None), ("files/write", Some(vec!["reads", "all"]))]
    {
        let name = helve::ToolName::new(tool).unwrap();
        assert_eq!(issuer.needed(&has, &[name]), needed, "{tool}");
    }
    let fetch = helve::ToolName::new("web/fetch").unwrap();
    assert_eq!(issuer.needed(&[], &[fetch]), Some(vec!["reads"]), "the narrowest");
    assert_eq!(issuer.needed(&has, &[]), None, "no tool has such a name");
}

#[tokio::test]
async fn a_token_is_for_the_resource_where_no_other_audience_is_named() {
    let signer = Signer::ed();
    let desk = Desk::open(vec![signer.jwk("a")]).await;
    let resource = "https://helve.example.com/mcp";
    let config =
        JwtConfig { audience: String::new(), resource: Some(format!("{resource}/")), ..desk.config() };
    let issuer = desk.issuer(config);
    for (audience, is_good) in [
        (json!(resource), true),
        (json!(["other", format!("{resource}/")]), true),
        (json!("https://helve.example.com"), false),
        (json!("https://helve.example.com/mcp/x"), false),
        (json!("http://helve.example.com/mcp"), false),
        (json!("https://helve.example.com.evil.com/mcp"), false),
        (json!("helve"), false),
        (json!([]), false),
    ] {
        let mut claims = desk.claims();
        claims["aud"] = audience.clone();
        let token = signer.sign(&json!({ "alg": "EdDSA", "kid": "a" }), &claims);
        assert_eq!(issuer.visitor(&token).await.is_some(), is_good, "{audience}");
    }
}

/// An authorization server that is no OpenID provider publishes its metadata elsewhere.
#[tokio::test]
async fn keys_are_found_by_the_metadata_of_an_authorization_server() {
    let signer = Signer::ed();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/tenant", listener.local_addr().unwrap());
    let (issuer, jwk) = (url.clone(), signer.jwk("a"));
    let metadata =
        move || async move { axum::Json(json!({ "issuer": issuer, "jwks_uri": format!("{issuer}/keys") })) };
    let router = Router::new()
        .route("/.well-known/oauth-authorization-server/tenant", get(metadata))
        .route("/tenant/keys", get(move || async move { axum::Json(json!({ "keys": [jwk] })) }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let desk = Desk { url, keys: Arc::default(), asked: Arc::default() };
    let token = signer.sign(&json!({ "alg": "EdDSA", "kid": "a" }), &desk.claims());
    assert_eq!(name(desk.issuer(desk.config()).visitor(&token).await).as_deref(), Some("ada"));
}

#[test]
fn scopes_that_cannot_be_used_are_refused() {
    let base = || JwtConfig {
        issuer: "https://a.example.com".to_owned(),
        audience: "a".to_owned(),
        scopes: scopes(),
        ..JwtConfig::default()
    };
    let said = |config: JwtConfig| {
        let client = Client::new(NetPolicy::default()).unwrap();
        Issuer::new(config, client).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said(base()), "");
    let approver = JwtConfig { approver_role: some("gatekeeper"), ..base() };
    assert_eq!(said(approver.clone()), "`identity.jwt.approver_scope` is missing");
    assert_eq!(said(JwtConfig { approver_scope: some("decides"), ..approver.clone() }), "");
    let is_no_scope =
        |name: &str, key: &str| format!("`{name}` in `identity.jwt.{key}` is no scope that can be used");
    assert_eq!(
        said(JwtConfig { approver_scope: some("all"), ..approver }),
        is_no_scope("all", "approver_scope")
    );
    assert_eq!(
        said(JwtConfig { first_scopes: vec!["al".into()], ..base() }),
        is_no_scope("al", "first_scopes")
    );
    let odd = [("a \"b".to_owned(), Scope::default())].into();
    assert_eq!(said(JwtConfig { scopes: odd, ..base() }), is_no_scope("a \"b", "scopes"));
    let gives = JwtConfig { approver_role: some("auditor"), approver_scope: some("decides"), ..base() };
    assert!(said(gives).contains("`identity.jwt.scopes.all` gives the role of those who decide"));
    for resource in
        ["mcp", "ftp://a.example.com", "https://a.example.com/mcp?x", "https://a:b@a.example.com/mcp"]
    {
        let wrong = JwtConfig { resource: some(resource), ..base() };
        assert_eq!(said(wrong), "`identity.jwt.resource` is not an http or https address", "{resource}");
    }
}
