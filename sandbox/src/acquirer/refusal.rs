//! Refusals that the contract words.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What stands for the id of the resource that a refusal is about.
const RESOURCE_ID: &str = "{transaction_id}";

/// How a repeat is turned away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refusal {
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// The JSON body. `{transaction_id}` in its texts is replaced by the id of the charge under the key,
    /// or while there is none by an id of the request.
    pub body: Map<String, Value>,
}

impl Refusal {
    /// A body of one member, `error`.
    pub(super) fn named(status: u16, error: &str) -> Refusal {
        let body = Map::from_iter([("error".to_owned(), error.into())]);
        Refusal { status, body }
    }

    pub(super) fn is_valid(&self) -> bool {
        (400..=599).contains(&self.status)
    }

    /// The body about one resource. Ids need no escaping in JSON.
    pub(super) fn body_about(&self, resource_id: &str) -> String {
        let body = Value::Object(self.body.clone()).to_string();
        body.replace(RESOURCE_ID, resource_id)
    }
}
