//! What there is to know about a running `dev`: for people on the standard output, for programs in a
//! file.

use crate::database;
use crate::failure::Failure;
use crate::stack::Stack;
use serde::{Deserialize, Serialize};
use shared::credential::Credential;
use shared::merchant::Merchant;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use tempfile::NamedTempFile;
use uuid::Uuid;

/// What a program needs to drive a running `dev`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// Where the API is.
    pub api_url: String,
    /// Where the simulated acquirer is.
    pub acquirer_url: String,
    /// The database.
    pub database_url: String,
    /// The demo merchant.
    pub merchant_id: Uuid,
    /// An API key of the demo merchant.
    pub api_key: String,
    /// A token of the demo operator.
    pub operator_token: String,
}

impl Info {
    /// What there is to know about a stack, its demo merchant with an API key, and a token of its demo operator.
    #[must_use]
    pub fn of(stack: &Stack, (merchant, key): &(Merchant, Credential), token: &Credential) -> Self {
        Self {
            api_url: stack.api_url().to_owned(),
            acquirer_url: stack.acquirer_url(),
            database_url: stack.database_url().to_owned(),
            merchant_id: merchant.id,
            api_key: key.reveal().to_owned(),
            operator_token: token.reveal().to_owned(),
        }
    }

    /// Writes the file in one step: whoever sees it sees all of it. Only its owner may read it, for
    /// the credentials in it.
    ///
    /// # Errors
    /// [`Failure::File`].
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let write = || -> io::Result<()> {
            // A rename replaces at once only within one file system.
            let mut file = NamedTempFile::new_in(folder(path))?;
            serde_json::to_writer_pretty(&mut file, self)?;
            writeln!(file)?;
            file.persist(path).map(drop).map_err(|error| error.error)
        };
        write().map_err(|source| Failure::File { what: "write", path: path.to_owned(), source })
    }

    /// What to open and what to paste.
    pub fn welcome(&self, stack: &Stack, data: Option<&Path>) -> String {
        let Self { api_url, acquirer_url, merchant_id, api_key, operator_token, .. } = self;
        let (metrics, database) = (stack.metrics_url(), self.database(stack, data));
        // A fresh one for every run: a kept database remembers the intents of the last.
        let order = format!("order-{:06x}", Uuid::new_v4().as_fields().0 & 0xff_ffff);
        format!(
            r#"payonce is up: API, {workers}, acquirer and database in one process.

  API       {api_url}
  docs      {api_url}/docs
  metrics   {metrics}
  acquirer  {acquirer_url}/ledger  (simulated: what it really booked)
  database  {database}
  merchant  demo ({merchant_id})
  API key   {api_key}
  operator  demo ({api_url}/ops/api/v1/me)
  token     {operator_token}

Pay, and wait up to 5 s for the end:

  curl -sS {api_url}/v1/payments \
    -H 'Authorization: Bearer {api_key}' \
    -H 'Idempotency-Key: {order}-try-1' \
    -H 'Prefer: wait=5' \
    -H 'Content-Type: application/json' \
    -d '{{"payment_intent_id":"{order}","amount_minor":1999,"currency":"EUR","payment_method_id":"pm_ok"}}'

See what the acquirer booked; paste the payment again, and it stays one charge:

  curl -sS {acquirer_url}/ledger

Other endings by other payment methods, such as pm_declined or pm_timeout_after_charge with an order and
a key of their own: `payonce sandbox methods` lists them. Ctrl-C stops everything."#,
            workers = workers(stack.worker_names().count()),
        )
    }

    fn database(&self, stack: &Stack, data: Option<&Path>) -> String {
        match (stack.postgres(), data) {
            (None, _) => format!("{}  (given)", database::address(&self.database_url)),
            (Some(_), None) => format!("{}  (embedded, goes with this process)", self.database_url),
            (Some(_), Some(data)) => format!("{}  (embedded, kept in {})", self.database_url, data.display()),
        }
    }
}

fn workers(count: usize) -> String {
    match count {
        0 => "no worker".to_owned(),
        1 => "a worker".to_owned(),
        _ => format!("{count} workers"),
    }
}

/// Removes the file of an earlier run, so that whoever waits for it does not find that one, and makes
/// sure that a new one will have a place.
pub fn prepare(path: &Path) -> Result<(), Failure> {
    let failure = |source| Failure::File { what: "write", path: path.to_owned(), source };
    if !folder(path).is_dir() {
        return Err(failure(io::Error::new(io::ErrorKind::NotFound, "there is no such directory")));
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failure(error)),
        _ => Ok(()),
    }
}

/// Where a file is, or will be.
fn folder(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
