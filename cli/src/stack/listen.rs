//! Taking addresses, and saying clearly when one is taken.

use crate::failure::Failure;
use crate::stack::part::Part;
use sandbox::acquirer::{Acquirer, Settings};
use shared::config::Config;
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Listens at an address. `change` is the flag or key that chooses another one.
///
/// # Errors
/// [`Failure::Listen`].
pub async fn bind(what: &'static str, addr: SocketAddr, change: &'static str) -> Result<TcpListener, Failure> {
    TcpListener::bind(addr).await.map_err(|source| Failure::Listen { what, addr, change, source })
}

/// Listens at an address where one is given.
///
/// # Errors
/// [`Failure::Listen`].
pub async fn bind_if(
    what: &'static str,
    addr: Option<SocketAddr>,
    change: &'static str,
) -> Result<Option<TcpListener>, Failure> {
    match addr {
        Some(addr) => bind(what, addr, change).await.map(Some),
        None => Ok(None),
    }
}

/// Starts a simulated acquirer at an address. `change` is the flag that chooses another one.
///
/// # Errors
/// [`Failure::Settings`], [`Failure::Listen`].
pub async fn acquirer(addr: SocketAddr, settings: Settings, change: &'static str) -> Result<Acquirer, Failure> {
    settings.validate()?;
    let started = Acquirer::start(addr, settings).await;
    started.map_err(|source| Failure::Listen { what: "the sandbox acquirer", addr, change, source })
}

/// Where a listener can be reached from this machine.
///
/// # Errors
/// When it is no listener.
pub fn url_of(listener: &TcpListener) -> Result<String, Failure> {
    let addr = listener.local_addr();
    addr.map(url).map_err(|source| Failure::System { what: "tell the address of a listener", source })
}

/// The URL of an address; one that means every interface is reached through loopback.
#[must_use]
pub fn url(addr: SocketAddr) -> String {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, addr.port()))
}

/// Serves `/metrics` and `/healthz` at a listener of their own.
#[must_use]
pub fn serve_metrics(listener: TcpListener, config: &Arc<Config>, pool: &PgPool, metrics: &Arc<Metrics>) -> Part {
    let app = api::metrics_app(pool.clone(), metrics.clone());
    let config = config.clone();
    Part::start("the server of /metrics", |stopped| async move {
        let served = api::serve(listener, app, &config.api, stopped).await;
        served.map_err(|source| Failure::System { what: "serve /metrics", source })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_every_interface_is_reached_through_loopback() {
        assert_eq!(url(SocketAddr::from(([0, 0, 0, 0], 80))), "http://127.0.0.1:80");
        assert_eq!(url(SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80))), "http://[::1]:80");
        assert_eq!(url(SocketAddr::from(([10, 0, 0, 1], 80))), "http://10.0.0.1:80");
    }
}
