//! The web tools: `web-search`, `web-scrape`, `http-get` and `http-request`.

use std::sync::Arc;

use helve::Tool;
use helve_sandbox::Sandbox;
use helve_tools::egress::ThroughProxy;
use helve_tools::web::browser::{BoxedBrowser, Chromium};
use helve_tools::web::client::LazyClient;
use helve_tools::web::{Downloads, WebConfigError};
use helve_tools::{WebBackend, WebConfig, web_tools};

use super::builtin::own_files;
use super::judges;
use crate::Remark;
use crate::config::{Loaded, document};
use crate::error::HostError;

/// The web tools that the configuration gives, and what should be known about them.
pub(super) fn tools(
    loaded: &Loaded,
    client: LazyClient,
    sandbox: &Sandbox,
) -> Result<(Vec<Tool>, Option<Remark>), HostError> {
    let config = &loaded.config.web;
    let mut backend = WebBackend::new(client);
    let public = Arc::new(ThroughProxy::new(loaded.config.net.public()));
    let browser = BoxedBrowser::new(sandbox.clone(), public, config.scrape.browser.clone());
    backend.browser = Some(Arc::new(Chromium::new(Arc::new(browser))));
    let mut remark = None;
    if let Some(folder) = &config.http.downloads {
        let folder = loaded.start_of("/web/http/downloads").join(folder);
        let own = vec![own_files(loaded).into_iter().collect(), judges::unwritable(loaded)];
        match Downloads::open(&folder, own) {
            Ok(downloads) => backend.downloads = Some(Arc::new(downloads)),
            Err(error) => {
                let named = config.http.downloads.as_deref().unwrap_or(&folder).display();
                let found = format!("the folder for downloads, `{named}`, cannot be used: {error}");
                backend.no_downloads = Some(found);
                remark = Some(Remark {
                    found: format!(
                        "the folder for downloads, `{}`, cannot be used: {error}",
                        folder.display()
                    ),
                    fix: "make it, or name a folder of its own in `web.http.downloads`".to_owned(),
                });
            }
        }
    }
    let tools = web_tools(config, &backend).map_err(|error| {
        let origin = document::at(&loaded.origin(&pointer(&error)));
        HostError::usage("the web tools cannot be used as they are configured")
            .detail(format!("{origin}  {error}"))
            .hint("`helve config keys web` documents the keys")
    })?;
    Ok((tools, remark))
}

/// The web tools of a file that is only looked at.
pub fn checked(config: &WebConfig) -> Result<Vec<Tool>, WebConfigError> {
    web_tools(config, &WebBackend::new(LazyClient::new(Default::default())))
}

/// Where in the file an error is.
pub fn pointer(error: &WebConfigError) -> String {
    format!("/web/{}", error.at.replace('.', "/"))
}
