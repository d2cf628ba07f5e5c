//! A register in etcd, by the JSON gateway of its version 3 interface.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use super::record::{MAX_RECORD, Record};
use super::{Membership, MembershipError};

/// A register in etcd: the value of one key.
#[derive(Clone, Debug)]
pub struct Etcd {
    agent: Agent,
    endpoints: Vec<String>,
    key: String,
}

/// What etcd has for the key.
struct Found {
    record: Record,
    /// Changes with each change of the value, and is never used again.
    revision: String,
}

impl Etcd {
    /// Reads `etcd://HOST:PORT[,HOST:PORT…]/KEY`. `timeout` is for each request.
    ///
    /// # Errors
    /// [`MembershipError`] if it is something else.
    pub fn parse(url: &str, timeout: Duration) -> Result<Self, MembershipError> {
        let parts = url.strip_prefix("etcd://").and_then(|rest| rest.split_once('/'));
        let (hosts, key) = parts
            .filter(|(hosts, key)| !key.is_empty() && hosts.split(',').all(|host| !host.is_empty()))
            .ok_or_else(|| MembershipError(format!("{url} is not etcd://HOST:PORT[,HOST:PORT]/KEY")))?;
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            // A proxy of the environment is for other networks.
            .proxy(None)
            .max_redirects(0)
            .build()
            .new_agent();
        let endpoints = hosts.split(',').map(|host| format!("http://{host}")).collect();
        Ok(Self { agent, endpoints, key: key.to_owned() })
    }

    /// Reads the key at the first endpoint that answers, and returns that too.
    fn range(&self) -> Result<(&str, Option<Found>), MembershipError> {
        let mut last = MembershipError("etcd has no endpoint".into());
        for endpoint in &self.endpoints {
            match self.post(endpoint, "range", &json!({ "key": STANDARD.encode(&self.key) })) {
                Ok(answer) => return Ok((endpoint, found(&answer).map_err(|text| wrong(endpoint, &text))?)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn post(&self, endpoint: &str, what: &str, question: &Value) -> Result<Value, MembershipError> {
        let url = format!("{endpoint}/v3/kv/{what}");
        let request = self.agent.post(&url).header("content-type", "application/json");
        let mut answer =
            request.send(question.to_string()).map_err(|error| wrong(endpoint, &error.to_string()))?;
        let status = answer.status();
        // A record of the longest kind is one third longer in this form.
        let text = answer.body_mut().with_config().limit(2 * MAX_RECORD as u64 + 4096).read_to_string();
        let text = text.map_err(|error| wrong(endpoint, &error.to_string()))?;
        let value: Result<Value, _> = serde_json::from_str(&text);
        if !status.is_success() {
            let value = value.unwrap_or_default();
            let reason = value.get("message").or_else(|| value.get("error")).and_then(Value::as_str);
            return Err(wrong(endpoint, &format!("status {status}: {}", reason.unwrap_or("no reason"))));
        }
        let value = value.map_err(|error| wrong(endpoint, &format!("no JSON: {error}")))?;
        // Each answer has it. What lacks it is no answer of etcd.
        if !value.get("header").is_some_and(Value::is_object) {
            return Err(wrong(endpoint, "an answer without header"));
        }
        Ok(value)
    }
}

impl Membership for Etcd {
    fn get(&self) -> Result<Option<Record>, MembershipError> {
        Ok(self.range()?.1.map(|found| found.record))
    }

    fn swap(&self, old: Option<&Record>, new: &Record) -> Result<bool, MembershipError> {
        new.check().map_err(|error| MembershipError(error.0))?;
        let (endpoint, found) = self.range()?;
        if found.as_ref().map(|found| &found.record) != old {
            return Ok(false);
        }
        let key = STANDARD.encode(&self.key);
        // A key that is not there has the revision 0.
        let revision = found.map_or_else(|| "0".to_owned(), |found| found.revision);
        let question = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "modRevision": revision }],
            "success": [{ "requestPut": { "key": key, "value": STANDARD.encode(new.to_json()) } }],
        });
        let answer = self.post(endpoint, "txn", &question)?;
        match answer.get("succeeded") {
            // What is false is left out.
            None => Ok(false),
            Some(Value::Bool(is_swapped)) => Ok(*is_swapped),
            Some(_) => Err(wrong(endpoint, "\"succeeded\" is not true or false")),
        }
    }
}

/// Reads the answer to a range.
fn found(answer: &Value) -> Result<Option<Found>, String> {
    let Some(values) = answer.get("kvs") else { return Ok(None) };
    let values = values.as_array().ok_or("\"kvs\" is no list")?;
    let Some(value) = values.first() else { return Ok(None) };
    let text = |name: &str| value.get(name).and_then(Value::as_str).ok_or_else(|| format!("no \"{name}\""));
    let revision = text("mod_revision")?.to_owned();
    if revision.parse::<i64>().is_err() {
        return Err("\"mod_revision\" is no number".into());
    }
    let octets = STANDARD.decode(text("value")?).map_err(|error| format!("\"value\": {error}"))?;
    let record = String::from_utf8(octets).map_err(|_| "the record is no text")?;
    let record = Record::from_json(&record).map_err(|error| error.0)?;
    Ok(Some(Found { record, revision }))
}

fn wrong(endpoint: &str, text: &str) -> MembershipError {
    MembershipError(format!("etcd at {endpoint}: {text}"))
}
