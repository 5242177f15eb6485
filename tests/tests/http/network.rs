//! Networks and clients that no library would let one have.

use std::time::Duration;
use tests::{Api, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{interval, timeout};

/// Longer than any limit that is tested here.
const PATIENCE: Duration = Duration::from_secs(20);

fn address(api: &Api) -> &str {
    api.base_url.trim_start_matches("http://")
}

/// A way to `api` that carries one request there whole, and then resets the client's connection before
/// any answer can come back.
pub async fn that_resets(api: &Api) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (url, to) = (format!("http://{}", listener.local_addr().expect("an address")), address(api).to_owned());
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(to).await.expect("the API");
        let request = whole_request(&mut client).await;
        server.write_all(&request).await.expect("passed on");
        client.set_zero_linger().expect("a reset instead of a goodbye");
        drop(client);
        // The instance answers, and nobody hears it.
        let _ = server.read(&mut [0; 1]).await;
    });
    url
}

async fn whole_request(client: &mut TcpStream) -> Vec<u8> {
    let mut request = Vec::new();
    while !is_whole(&String::from_utf8_lossy(&request)) {
        assert!(client.read_buf(&mut request).await.expect("a request") > 0, "it breaks off");
    }
    request
}

fn is_whole(request: &str) -> bool {
    let Some((head, body)) = request.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.expect("a length")
}

/// A client by hand.
pub struct Wire(TcpStream);

impl Wire {
    /// Connects.
    pub async fn to(api: &Api) -> Self {
        Self(TcpStream::connect(address(api)).await.expect("a connection"))
    }

    /// Sends this and no more.
    pub async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("sent");
    }

    /// Sends one byte after the other, slowly, until the server has had enough.
    pub async fn trickle(&mut self, byte: u8) {
        let trickling = async {
            let mut pace = interval(Duration::from_millis(20));
            loop {
                pace.tick().await;
                if self.0.write_all(&[byte]).await.is_err() {
                    return;
                }
            }
        };
        timeout(PATIENCE, trickling).await.expect("the server does not listen for ever");
    }

    /// Says that nothing more will be sent.
    pub async fn end(&mut self) {
        self.0.shutdown().await.expect("half closed");
    }

    /// Everything that comes until the server closes.
    pub async fn rest(mut self) -> String {
        let mut heard = Vec::new();
        // A reset ends it as well.
        let _ = timeout(PATIENCE, self.0.read_to_end(&mut heard)).await.expect("the server closes the connection");
        String::from_utf8(heard).expect("text")
    }
}

/// The head of a POST whose body has this length.
pub fn head(world: &World, length: usize) -> String {
    format!(
        "POST /v1/payments HTTP/1.1\r\nHost: payonce\r\nAuthorization: Bearer {}\r\nIdempotency-Key: key-1\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
        world.api_key
    )
}
