//! Where a server is, as typed.

use url::Url;

use crate::failure::Failure;

/// An address as typed. It is text until here, since clap repeats what it cannot read, and there may be a password in it.
pub(super) fn server_url(text: &str, flag: &str) -> Result<Url, Failure> {
    let url = Url::parse(text).map_err(|error| {
        Failure::usage(format!("the address of {flag} cannot be read: {error}"))
            .hint("it is one such as https://mail.example.org")
    })?;
    if url.username().is_empty() && url.password().is_none() {
        return Ok(url);
    }
    Err(Failure::usage(format!("the address of {flag} has a login in it, and would be kept and shown"))
        .hint("leave out what stands before the `@`; `--login NAME` names who logs in")
        .hint("the password is asked for; `--password-stdin` and `--secret REF` give it without a question"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_in_an_address_is_refused_and_not_repeated() {
        assert_eq!(
            server_url("https://dav.example.org/", "--url").unwrap().host_str(),
            Some("dav.example.org")
        );
        for text in [
            "https://ada:hunter2@dav.example.org/",
            "https://hunter2@dav.example.org/",
            "https://ada:hunter2@/",
        ] {
            let failure = server_url(text, "--url").unwrap_err();
            assert!(!format!("{failure:?}").contains("hunter2"), "{failure:?}");
        }
    }
}
