//! Tokens that are renewed.

use std::time::Duration;

use helve_mcp::oauth::{Next, OAuthError};
use secrecy::ExposeSecret;

use super::authority::{Authority, Ways};
use super::{bearer, login, session, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_askers_in_two_processes_refresh_once() {
    let authority = Authority::start(Ways { expires_in: Some(0), refresh_ms: 50, ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let sessions = [session(&authority, folder.path()), session(&authority, folder.path())];
    login(&sessions[0]).await.unwrap();
    authority.ways().expires_in = Some(3_600);
    let mut askers = tokio::task::JoinSet::new();
    for n in 0..50 {
        let session = sessions[n % 2].clone();
        askers.spawn(async move { bearer(&session).await });
    }
    for token in askers.join_all().await {
        assert_eq!(token.expose_secret(), "access-token-2");
    }
    assert_eq!(authority.seen().refreshes, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_refused_requests_refresh_once_as_well() {
    let authority = Authority::start(Ways { expires_in: None, refresh_ms: 50, ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    login(&session).await.unwrap();
    let used = bearer(&session).await;
    authority.revoke_all();
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (session, used, challenge) = (session.clone(), used.clone(), authority.challenge());
        askers.spawn(async move { session.challenged(&challenge, Some(&used)).await.unwrap() });
    }
    assert!(askers.join_all().await.iter().all(|next| *next == Next::Retry));
    assert_eq!(authority.seen().refreshes, 1);
    assert_eq!(status(&authority, &bearer(&session).await).await, 200);
    // Where a new token is refused as well, its age was not the reason.
    authority.revoke_all();
    let used = bearer(&session).await;
    let next = session.challenged(&authority.challenge(), Some(&used)).await.unwrap();
    assert!(matches!(next, Next::NeedsLogin { .. }), "{next:?}");
    assert_eq!(authority.seen().refreshes, 1);
}

#[tokio::test]
async fn a_rotated_refresh_token_is_kept_and_one_that_stays_too() {
    for rotates in [true, false] {
        let ways = Ways { expires_in: Some(0), rotates, secret: Some("of-the-client"), ..Ways::default() };
        let authority = Authority::start(ways).await;
        let folder = tempfile::tempdir().unwrap();
        login(&session(&authority, folder.path())).await.unwrap();
        for round in 2..6 {
            // A new process each time: what counts is what was stored, a registered secret included.
            let token = bearer(&session(&authority, folder.path())).await;
            assert_eq!(token.expose_secret(), format!("access-token-{round}"));
        }
        assert_eq!(authority.seen().refreshes, 4);
    }
}

#[tokio::test]
async fn a_refused_refresh_needs_a_login_and_is_not_repeated() {
    for code in ["invalid_grant", "invalid_client"] {
        let refuses_refresh = Some((400, code));
        let authority =
            Authority::start(Ways { expires_in: Some(0), refuses_refresh, ..Ways::default() }).await;
        let folder = tempfile::tempdir().unwrap();
        let session = session(&authority, folder.path());
        login(&session).await.unwrap();
        let error = session.bearer().await.unwrap_err();
        assert!(matches!(error, OAuthError::LoginNeeded { .. }), "{error}");
        assert!(session.bearer().await.unwrap().is_none());
        let next = session.challenged(&authority.challenge(), None).await.unwrap();
        assert!(matches!(next, Next::NeedsLogin { .. }), "{next:?}");
        assert_eq!(authority.seen().refreshes, 1);
    }
}

#[tokio::test]
async fn a_failed_refresh_is_an_error_for_now_and_shared_by_all_who_wait() {
    let authority = Authority::start(Ways {
        expires_in: Some(0),
        refuses_refresh: Some((503, "temporarily_unavailable")),
        refresh_ms: 200,
        ..Ways::default()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    login(&session).await.unwrap();
    let mut askers = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let session = session.clone();
        askers.spawn(async move { session.bearer().await.unwrap_err() });
    }
    for error in askers.join_all().await {
        assert!(matches!(error, OAuthError::Renewal { .. }), "{error}");
        assert!(!format!("{error} {error:?}").contains("refresh-token"), "{error:?}");
    }
    assert_eq!(authority.seen().refreshes, 1);
    authority.ways().refuses_refresh = None;
    assert_eq!(bearer(&session).await.expose_secret(), "access-token-2");
}

#[tokio::test]
async fn who_stops_waiting_loses_no_token() {
    let authority = Authority::start(Ways { expires_in: Some(0), refresh_ms: 200, ..Ways::default() }).await;
    let folder = tempfile::tempdir().unwrap();
    let session = session(&authority, folder.path());
    login(&session).await.unwrap();
    authority.ways().expires_in = Some(3_600);
    // Given up while the other side has already replaced the refresh token.
    let _ = tokio::time::timeout(Duration::from_millis(100), session.bearer()).await.unwrap_err();
    assert_eq!(bearer(&super::session(&authority, folder.path())).await.expose_secret(), "access-token-2");
    assert_eq!(authority.seen().refreshes, 1);
}
