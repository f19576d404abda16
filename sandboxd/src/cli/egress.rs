//! `sandboxd egress`: what a session may reach, what it reached, what was refused and why.
//!
//! Runs in: client (tokio, one thread).

use clap::{Args, Subcommand};
use http_body_util::BodyExt;
use hyper::Method;
use policy::ServerName;
use relay::egress::{Outcome, Refusal};

use super::client::{Client, block_on};
use super::session::{path, print, print_json};
use super::start::DaemonFlags;
use crate::fault::{Fault, Kind};

/// The door out of a session.
#[derive(Debug, Subcommand)]
pub(super) enum Egress {
    Log(Log),
    Explain(Explain),
}

impl Egress {
    pub(super) fn run(self) -> Result<i32, Fault> {
        match self {
            Self::Log(command) => command.run(),
            Self::Explain(command) => command.run(),
        }
    }
}

/// Show each connection and each refusal, with its reason.
#[derive(Debug, Args)]
pub(super) struct Log {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// Go on until the session ends.
    #[arg(short, long)]
    follow: bool,
    /// Print the records as they are, one JSON object a line.
    #[arg(long)]
    json: bool,
}

impl Log {
    fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        block_on(async {
            let mut client = Client::connect(&place).await?;
            let query = format!("/egress/log?follow={}", self.follow);
            let mut body = client.stream(&path(&self.session, &query)).await?;
            let mut rest = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| Fault::chain(Kind::Host, &error))?;
                let Ok(bytes) = frame.into_data() else { continue };
                rest.extend_from_slice(&bytes);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if self.show(&line).is_err() {
                        return Ok(0);
                    }
                }
            }
            Ok(0)
        })
    }

    fn show(&self, line: &[u8]) -> Result<(), Fault> {
        let line = String::from_utf8_lossy(line);
        if self.json {
            return print(&line);
        }
        match serde_json::from_str(&line) {
            Ok(record) => print(&format!("{}\n", sentence(&record))),
            Err(_) => print(&line),
        }
    }
}

/// One record as a person reads it.
fn sentence(record: &serde_json::Value) -> String {
    let text = |key: &str| match record.get(key) {
        None | Some(serde_json::Value::Null) => String::new(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let names = ["name", "host", "address"].map(text);
    let target = names.into_iter().find(|name| !name.is_empty()).unwrap_or_default();
    let port = if text("port").is_empty() { String::new() } else { format!(":{}", text("port")) };
    let words = [
        text("ts"),
        text("network"),
        text("ev"),
        format!("{target}{port}"),
        text("verdict"),
        text("reason"),
        text("fix"),
    ];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("  ")
}

/// What was refused, as the end of `run` tells it, with the flag that would allow it.
pub(super) fn refusal(refusal: &Refusal) -> String {
    let port = refusal.port.map(|port| format!(":{port}")).unwrap_or_default();
    let times =
        if refusal.count > 1 { format!(" ({} times)", refusal.count) } else { String::new() };
    let fix = refusal.fix.as_ref().map(|fix| format!("; to allow it: {fix}")).unwrap_or_default();
    let verb = match refusal.outcome {
        Outcome::Deny => "refused",
        // The rules allow it and the world did not.
        Outcome::Allow | Outcome::Fail => "failed",
    };
    format!("egress: {}{port} {verb}: {}{times}{fix}", refusal.host, refusal.reason)
}

/// Say whether a connection would be let out, by which rule, and what would allow it. Status 1: it would not.
#[derive(Debug, Args)]
pub(super) struct Explain {
    #[command(flatten)]
    daemon: DaemonFlags,
    /// The session's name or id.
    session: String,
    /// The name or address, and the port (443 when none is said).
    #[arg(value_name = "NAME[:PORT]")]
    target: String,
    /// Ask for this MCP server's own network.
    #[arg(long, value_name = "SERVER")]
    server: Option<ServerName>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Explain {
    fn run(self) -> Result<i32, Fault> {
        let place = self.daemon.place()?;
        let (host, port) = split(&self.target)?;
        let server = self.server.as_ref().map(|name| format!("&server={name}")).unwrap_or_default();
        let query = format!("/egress/explain?host={}&port={port}{server}", escape(host));
        let explanation: serde_json::Value = block_on(async {
            let mut client = Client::connect(&place).await?;
            client.ask(Method::GET, &path(&self.session, &query), &()).await
        })?;
        let allowed =
            explanation.get("verdict").and_then(serde_json::Value::as_str) == Some("allow");
        if self.json {
            print_json(&explanation)?;
        } else {
            let mut text = format!("{}\n", sentence(&explanation));
            if let Some(rule) = explanation.get("rule").and_then(serde_json::Value::as_str) {
                text.push_str(&format!("rule: {rule}\n"));
            }
            print(&text)?;
        }
        Ok(i32::from(!allowed))
    }
}

/// Takes `NAME:PORT` apart; an IPv6 address with a port stands in brackets (RFC 3986, 3.2.2).
fn split(target: &str) -> Result<(&str, u16), Fault> {
    let wrong = || {
        Fault::new(Kind::User, format!("client: expected NAME[:PORT], found {target:?}"))
            .field("NAME[:PORT]")
    };
    if let Some(rest) = target.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
        let port =
            port.strip_prefix(':').map_or(Ok(443), |port| port.parse().map_err(|_| wrong()))?;
        return Ok((host, port));
    }
    match target.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Ok((target, 443)),
        Some((host, port)) => Ok((host, port.parse().map_err(|_| wrong())?)),
        None => Ok((target, 443)),
    }
}

fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_taken_apart() {
        for (text, host, port) in [
            ("example.org", "example.org", 443),
            ("example.org:22", "example.org", 22),
            ("[2001:db8::1]:80", "2001:db8::1", 80),
            ("2001:db8::1", "2001:db8::1", 443),
            ("192.0.2.1:80", "192.0.2.1", 80),
        ] {
            assert_eq!(split(text).unwrap(), (host, port), "{text}");
        }
        for text in ["example.org:", "example.org:x", "[::1", "example.org:70000"] {
            assert!(split(text).is_err(), "{text}");
        }
    }
}
