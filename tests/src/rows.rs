//! All rows that payments leave, made comparable: ids are numbered as they appear, times are only
//! there or not.

use crate::World;
use serde_json::Value;
use sqlx::AssertSqlSafe;
use std::collections::BTreeMap;

/// The tables, and the order in which their rows came to be. Calls come last: how many there are does not
/// change the numbers of the other rows' ids.
const TABLES: [(&str, &str); 8] = [
    ("payments", "id"),
    ("idempotency_keys", "payment_id"),
    ("payment_history", "payment_id, version"),
    ("events", "payment_id, occurred_at"),
    ("deliveries", "event_id, sink"),
    ("reviews", "payment_id, opened_at, reason"),
    ("jobs", "subject_id, step, route"),
    ("provider_calls", "payment_id, attempt, started_at, request_id"),
];

/// Every row of every table of a world.
#[derive(Clone, PartialEq)]
pub struct Rows(BTreeMap<&'static str, Vec<Value>>);

impl Rows {
    /// Reads them.
    pub async fn of(world: &World) -> Self {
        let (mut rows, mut names) = (BTreeMap::new(), Names::default());
        for (table, order) in TABLES {
            let sql = format!("SELECT to_jsonb(t) FROM {table} t ORDER BY {order}");
            let found: Vec<Value> =
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&world.database.pool).await.expect(table);
            rows.insert(table, found.into_iter().map(|row| names.normalised("", row)).collect());
        }
        Self(rows)
    }

    /// Without these columns, wherever they are.
    #[must_use]
    pub fn without(mut self, columns: &[&str]) -> Self {
        for row in self.0.values_mut().flatten().filter_map(Value::as_object_mut) {
            row.retain(|column, _| !columns.contains(&column.as_str()));
        }
        self
    }

    /// Without this table.
    #[must_use]
    pub fn without_table(mut self, table: &str) -> Self {
        self.0.remove(table);
        self
    }
}

/// One row a line, so that a failed comparison can be read.
impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (table, rows) in &self.0 {
            for row in rows {
                write!(f, "\n{table} {row}")?;
            }
        }
        Ok(())
    }
}

/// Numbers given to ids in the order of their appearance.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn normalised(&mut self, column: &str, value: Value) -> Value {
        match value {
            Value::Null => Value::Null,
            // The writing transaction's number.
            _ if column == "tx" => Value::Null,
            _ if column == "at" || column.ends_with("_at") || column.ends_with("_until") => "(a time)".into(),
            Value::String(text) => self.text(text),
            Value::Array(values) => values.into_iter().map(|value| self.normalised("", value)).collect(),
            Value::Object(members) => members
                .into_iter()
                .map(|(name, value)| {
                    let value = self.normalised(&name, value);
                    (name, value)
                })
                .collect(),
            plain => plain,
        }
    }

    /// A stored body is JSON in a text: it has ids and times of its own.
    fn text(&mut self, text: String) -> Value {
        let body = serde_json::from_str(&text).ok().filter(Value::is_object);
        if let Some(body) = body {
            return self.normalised("", body);
        }
        let words = text.split_inclusive([' ', ',', ')']).map(|word| self.word(word));
        words.collect::<String>().into()
    }

    fn word(&mut self, word: &str) -> String {
        let id = word.trim_end_matches([' ', ',', ')']);
        if uuid::Uuid::try_parse(id).is_err() && !id.starts_with("txn_") {
            return word.to_owned();
        }
        let number = self.0.iter().position(|known| known == id).unwrap_or_else(|| {
            self.0.push(id.to_owned());
            self.0.len() - 1
        });
        word.replace(id, &format!("(id {number})"))
    }
}
