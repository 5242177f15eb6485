//! A Stripe server that nobody here wrote: `localstripe` (PyPI). It keeps PaymentIntents, knows no idempotency keys and
//! forgets everything when it ends.

use crate::eventually;
use serde_json::Value;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// What is installed.
const RELEASE: &str = "localstripe==1.15.10";

/// The credential that it takes.
pub const CREDENTIAL: &str = "sk_test_payonce";

/// A running server, killed when dropped.
pub struct LocalStripe {
    child: Child,
    port: u16,
}

impl LocalStripe {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = taken.local_addr().expect("an address").port();
        drop(taken);
        let mut server = Self { child: run(port), port };
        server.ready().await;
        server
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again at the same address, without a memory.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = run(self.port);
        self.ready().await;
    }

    async fn ready(&mut self) {
        eventually("localstripe answers", || async { self.get("/v1/payment_intents").await }).await;
    }

    /// Makes a card, and returns the payment method's id.
    pub async fn card(&self, number: &str) -> String {
        let form = [
            ("type", "card"),
            ("card[number]", number),
            ("card[exp_month]", "12"),
            ("card[exp_year]", "2040"),
            ("card[cvc]", "123"),
        ];
        let post = client().post(format!("{}/v1/payment_methods", self.url())).bearer_auth(CREDENTIAL).form(&form);
        let made: Value = post.send().await.expect("an answer").json().await.expect("JSON");
        made["id"].as_str().unwrap_or_else(|| panic!("no payment method: {made}")).to_owned()
    }

    /// All PaymentIntents that bear this reference.
    pub async fn intents(&self, reference: &str) -> Vec<Value> {
        let list = self.get("/v1/payment_intents?limit=1000").await.expect("it is there");
        let all = list["data"].as_array().expect("a list").clone();
        all.into_iter().filter(|intent| intent["metadata"]["payonce_payment_id"] == reference).collect()
    }

    async fn get(&self, path: &str) -> Option<Value> {
        let answer = client().get(format!("{}{path}", self.url())).bearer_auth(CREDENTIAL).send().await.ok()?;
        answer.json().await.ok()
    }
}

impl Drop for LocalStripe {
    fn drop(&mut self) {
        self.kill();
    }
}

fn client() -> reqwest::Client {
    worker::acquirer::install_tls();
    reqwest::Client::builder().no_proxy().build().expect("a client")
}

fn run(port: u16) -> Child {
    let program = PROGRAM.get_or_init(program);
    Command::new(program)
        .args(["--from-scratch", "--port", &port.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{} cannot be started: {error}", program.display()))
}

static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// The one that an earlier run installed, or one that is installed now.
fn program() -> PathBuf {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/localstripe");
    let program = venv.join("bin/localstripe");
    if !program.is_file() {
        install(&["python3".as_ref(), "-m".as_ref(), "venv".as_ref(), venv.as_os_str()]);
        install(&[venv.join("bin/pip").as_os_str(), "install".as_ref(), "--quiet".as_ref(), RELEASE.as_ref()]);
    }
    program
}

fn install(command: &[&OsStr]) {
    let output = Command::new(command[0]).args(&command[1..]).output();
    let said = match &output {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned(),
        Err(error) => error.to_string(),
    };
    panic!(
        "these tests need {RELEASE}, a Stripe server from PyPI, in target/localstripe, and {command:?} failed: {said}\n\
         It takes Python 3 with its venv module (Debian: python3-venv) and the way to PyPI"
    );
}
