//! Reading the layers of a configuration so that every fault is found and not only the first: a value
//! at fault is noted and put right, and the reading begins again.

use super::{Acquirer, Config};
use figment::Figment;
use figment::error::{Error, Kind};
use figment::value::{Dict, Value};

/// Nobody reads more faults than this at once.
const MOST_FAULTS: usize = 50;

/// A configuration that can be checked further, and the faults that were put right to get it: with a
/// single one it must not be used.
///
/// # Errors
/// The faults, where they leave nothing to check.
pub(super) fn read(layers: &Figment) -> Result<(Config, Vec<String>), Vec<String>> {
    let words = |errors: Error| errors.into_iter().map(|error| error.to_string()).collect::<Vec<_>>();
    let mut value = layers.find_value("").map_err(words)?;
    let pattern = pattern();
    let mut faults = Vec::new();
    loop {
        match value.deserialize() {
            Ok(config) => return Ok((config, faults)),
            Err(error) => {
                faults.push(describe(&error, layers));
                if faults.len() == MOST_FAULTS || !put_right(&mut value, &error, &pattern) {
                    return Err(faults);
                }
            }
        }
    }
}

/// A configuration without a fault, with one acquirer that stands for all.
fn pattern() -> Value {
    let acquirers = [("default".to_owned(), Acquirer::at("http://127.0.0.1"))].into();
    Value::serialize(Config { acquirers, ..Config::default() }).expect("plain texts, numbers and maps are values")
}

fn describe(error: &Error, layers: &Figment) -> String {
    let key = error.path.join(".");
    let place = layers.find_metadata(&key).map(|metadata| match &metadata.source {
        Some(source) => format!(" (in {source})"),
        None => format!(" (in {})", metadata.name),
    });
    let what = match &error.kind {
        Kind::UnknownField(_, known) => format!("there is no such key; known: {}", known.join(", ")),
        Kind::UnknownVariant(found, known) => format!("{found:?} is not known; known: {}", known.join(", ")),
        kind => kind.to_string(),
    };
    let colon = if key.is_empty() { "" } else { ": " };
    format!("{key}{colon}{what}{}", place.unwrap_or_default())
}

/// Takes an unknown key out; anything else is set to what the pattern has there. False when that
/// cannot help.
fn put_right(value: &mut Value, error: &Error, pattern: &Value) -> bool {
    let mut path: Vec<&str> = error.path.iter().map(String::as_str).collect();
    match &error.kind {
        Kind::UnknownField(..) => {
            path.split_last().and_then(|(key, parents)| dict_at(value, parents)?.remove(*key)).is_some()
        }
        Kind::MissingField(name) => {
            path.push(name);
            set(value, &path, pattern)
        }
        _ => set(value, &path, pattern),
    }
}

/// Sets the value at the path, or the one that holds it, to what the pattern has there.
fn set(value: &mut Value, path: &[&str], pattern: &Value) -> bool {
    for length in (1..=path.len()).rev() {
        let Some((last, parents)) = path[..length].split_last() else { return false };
        if let Some(right) = find(pattern, &path[..length]) {
            // Nothing changed: nothing would the next time.
            return dict_at(value, parents)
                .is_some_and(|dict| dict.insert((*last).to_owned(), right.clone()).as_ref() != Some(&right));
        }
    }
    false
}

/// What the pattern has at the path. An acquirer of any name looks like its only one.
fn find(pattern: &Value, path: &[&str]) -> Option<Value> {
    let mut found = pattern;
    for (depth, key) in path.iter().enumerate() {
        let any_acquirer = depth == 1 && path[0] == "acquirers";
        found = found.as_dict()?.get(if any_acquirer { "default" } else { key })?;
    }
    Some(found.clone())
}

fn dict_at<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Dict> {
    let Value::Dict(_, dict) = value else { return None };
    match path.split_first() {
        None => Some(dict),
        Some((key, rest)) => dict_at(dict.get_mut(*key)?, rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use figment::providers::{Format, Serialized, Toml};

    fn faults(toml: &str) -> Vec<String> {
        let layers = Figment::from(Serialized::defaults(Config::default())).merge(Toml::string(toml));
        match read(&layers) {
            Ok((_, faults)) | Err(faults) => faults,
        }
    }

    #[test]
    fn every_fault_is_found_and_named_with_its_key() {
        let found = faults(
            r#"
            databse_url = "postgres://x"
            log_format = "xml"
            [api]
            listen = "localhost"
            conections = 5
            [steps.charge]
            concurrency = -1
            backoff_ms = [1, "two"]
            [acquirers.bank]
            kind = "http"
            ttl_h = "a day"
            "#,
        );
        let keys: Vec<&str> = found.iter().map(|fault| fault.split(':').next().unwrap()).collect();
        assert_eq!(found.len(), 8, "{found:#?}");
        for key in [
            "databse_url",
            "log_format",
            "api.listen",
            "api.conections",
            "steps.charge.concurrency",
            "acquirers.bank.ttl_h",
        ] {
            assert!(keys.contains(&key), "{key}: {found:#?}");
        }
        assert!(found.iter().any(|fault| fault.contains("missing field `base_url`")), "{found:#?}");
    }

    #[test]
    fn a_file_that_is_no_toml_has_one_fault() {
        assert_eq!(faults("api = [").len(), 1);
    }

    #[test]
    fn a_good_file_has_none() {
        assert_eq!(faults("[steps.charge]\nconcurrency = 1"), Vec::<String>::new());
    }
}
