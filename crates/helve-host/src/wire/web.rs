//! The web tools: `web-search`, `web-scrape`, `http-get` and `http-request`.

use std::sync::Arc;

use helve::Tool;
use helve_sandbox::Sandbox;
use helve_tools::egress::ThroughProxy;
use helve_tools::web::browser::{BoxedBrowser, Chromium};
use helve_tools::web::client::LazyClient;
use helve_tools::web::each_web_tool;
use helve_tools::web::{Downloads, WebConfigError};
use helve_tools::{WebBackend, WebConfig, web_tools};

use super::broken::BrokenPart;
use super::builtin::own_files;
use super::judges;
use crate::Remark;
use crate::config::Loaded;

/// The web tools that the configuration gives.
pub(super) struct Web {
    pub(super) tools: Vec<Tool>,
    /// Those that cannot be made as they are configured.
    pub(super) broken: Vec<BrokenPart>,
    /// What should be known about them.
    pub(super) remark: Option<Remark>,
}

/// The web tools that the configuration gives, and what should be known about them.
pub(super) fn tools(loaded: &Loaded, client: LazyClient, sandbox: &Sandbox) -> Web {
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
    let (mut tools, mut broken) = (Vec::new(), Vec::new());
    for (name, made) in each_web_tool(config, &backend) {
        match made {
            Ok(tool) => tools.push(tool),
            Err(error) => broken.push(BrokenPart::built_in(name, loaded.origin(&pointer(&error)), &error)),
        }
    }
    Web { tools, broken, remark }
}

/// The web tools of a file that is only looked at.
pub fn checked(config: &WebConfig) -> Result<Vec<Tool>, WebConfigError> {
    web_tools(config, &WebBackend::new(LazyClient::new(Default::default())))
}

/// Where in the file an error is.
pub fn pointer(error: &WebConfigError) -> String {
    format!("/web/{}", error.at.replace('.', "/"))
}
