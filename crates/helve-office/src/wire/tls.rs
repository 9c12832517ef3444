//! TLS by rustls on ring, trusting what this machine trusts and what the owner adds.

use std::path::Path;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Server;
use crate::account::Fault;

/// A file of authorities is small.
const CA_BYTES_MAX: u64 = 1 << 20;

/// Shakes hands; the server proves that it is who it was asked for.
pub(super) async fn handshake(server: &Server, tcp: TcpStream) -> Result<TlsStream<TcpStream>, Fault> {
    let config = config(server.ca_file.as_deref()).await?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| Fault::Refused(format!("`{}` is no name that a certificate can be for", server.host)))?;
    let connected = TlsConnector::from(Arc::new(config)).connect(name, tcp).await;
    connected.map_err(|error| failed(server, &error))
}

async fn config(ca_file: Option<&Path>) -> Result<ClientConfig, Fault> {
    let extra = match ca_file {
        Some(path) => authorities(path).await?,
        None => Vec::new(),
    };
    let setup = |error: rustls::Error| Fault::Refused(format!("TLS cannot be set up here: {error}"));
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&provider)).map_err(setup)?;
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    // The verifier is the platform's own; rustls calls every verifier that it does not bring along dangerous.
    let builder = builder.map_err(setup)?.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

async fn authorities(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let refuse = |what: &str| Fault::Refused(format!("the CA file `{}` {what}", path.display()));
    let file = tokio::fs::File::open(path).await.map_err(|_| refuse("cannot be read"))?;
    let mut pem = Vec::new();
    let read = file.take(CA_BYTES_MAX + 1).read_to_end(&mut pem).await;
    read.map_err(|_| refuse("cannot be read"))?;
    if pem.len() as u64 > CA_BYTES_MAX {
        return Err(refuse("is longer than 1 MiB"));
    }
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match read {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) | Err(_) => Err(refuse("has no certificate in PEM form")),
    }
}

fn failed(server: &Server, error: &std::io::Error) -> Fault {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(why)) => Fault::Refused(format!(
            "the certificate of {server} is not trusted ({why}); if it is your company's own, name its CA file"
        )),
        Some(why) => Fault::Refused(format!("no secure connection to {server}: {why}")),
        None => Fault::Unreachable(format!("{server} broke off while TLS was set up")),
    }
}
