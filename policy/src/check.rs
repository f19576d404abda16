//! Holds a session that came as JSON to the rules of a parsed file.
//!
//! Runs in: any (pure data).
//!
//! The parser checks while it reads, since only it knows the lines. What comes over the API may have been
//! written by another program; here the same checks run over the finished values.

use std::path::{Component, Path};

use crate::egress::{Budget, EgressMode, Rule};
use crate::error::{Complaint, PolicyError};
use crate::paths;
use crate::secret::SecretSource;
use crate::server::{CONCURRENCY_RANGE, EnvValue, Server, TIMEOUT_RANGE};
use crate::session::{MAX_SERVERS, PIDS_RANGE, SessionFile, WorkspaceChoice};
use crate::variables;

impl SessionFile {
    /// Checks every value by the rules of a parsed file, but for where a workspace may lie (see
    /// `workspace_refusal`, which has to know the home).
    ///
    /// # Errors
    /// Names the key that is at fault, without a file or a line.
    pub fn check(&self) -> Result<(), PolicyError> {
        if let WorkspaceChoice::At(workspace) = &self.workspace {
            at("workspace.path", absolute(&workspace.path))?;
        }
        for (index, mount) in self.mounts.iter().enumerate() {
            at(&format!("mounts[{index}].source"), absolute(&mount.source))?;
            let target = absolute(&mount.target).and_then(|()| paths::check_target(&mount.target));
            at(&format!("mounts[{index}].target"), target)?;
        }
        let together = paths::check_together(&self.mounts, &self.workspace);
        together.map_err(|clash| PolicyError::flag("mounts", clash.complaint))?;
        self.check_egress()?;
        for (name, value) in &self.env {
            at("env", variables::check_name(name))?;
            at(&format!("env.{name}"), no_nul(value))?;
        }
        for (name, source) in &self.secrets {
            at(&format!("secrets.{name}"), check_source(source))?;
        }
        at("mcp", expect(self.servers.len() <= MAX_SERVERS, "at most 64 servers"))?;
        for (name, server) in &self.servers {
            self.check_server(&format!("mcp.{name}"), server)?;
        }
        let pids = self.limits.pids.is_none_or(|pids| PIDS_RANGE.contains(&pids));
        at("limits.pids", expect(pids, "a whole number from 16 to 1048576"))
    }

    /// Checks all lists of rules; a rule by itself was checked when it was read.
    fn check_egress(&self) -> Result<(), PolicyError> {
        let mut budget = Budget::default();
        let is_open = self.egress.mode == EgressMode::Filter;
        let rules =
            expect(is_open || self.egress.allow.is_empty(), "no rules beside mode \"none\"");
        at("egress.allow", rules.and_then(|()| check_rules(&self.egress.allow, &mut budget)))?;
        for (name, server) in &self.servers {
            let Some(rules) = &server.egress else { continue };
            let what = "own_network, which egress implies";
            at(&format!("mcp.{name}.egress"), expect(server.own_network, what))?;
            at(&format!("mcp.{name}.egress"), check_rules(rules, &mut budget))?;
        }
        Ok(())
    }

    fn check_server(&self, field: &str, server: &Server) -> Result<(), PolicyError> {
        at(&format!("{field}.command"), check_command(&server.command))?;
        let runs_own_code = server.holds_secret() && !server.trust_workspace_code;
        for (name, value) in &server.env {
            at(&format!("{field}.env"), variables::check_name(name))?;
            let field = format!("{field}.env.{name}");
            if runs_own_code {
                at(&field, variables::check_secret_holder(name))?;
            }
            at(&field, self.check_value(value))?;
        }
        let concurrency = CONCURRENCY_RANGE.contains(&server.concurrency);
        let concurrency = expect(concurrency, "a whole number from 1 to 64");
        at(&format!("{field}.concurrency"), concurrency)?;
        let times = server.timeouts;
        let is_sound =
            [times.start, times.call, times.idle].iter().all(|time| TIMEOUT_RANGE.contains(time))
                && times.idle <= times.call;
        let what = "durations from 1 second to 24 hours, and idle not above call";
        at(&format!("{field}.timeouts"), expect(is_sound, what))
    }

    fn check_value(&self, value: &EnvValue) -> Result<(), Complaint> {
        match value {
            EnvValue::Literal(text) => no_nul(text),
            EnvValue::Secret { name, prefix } => {
                no_nul(prefix)?;
                expect(self.secrets.contains_key(name), "the name of a secret in secrets")
            }
        }
    }
}

fn at(field: &str, result: Result<(), Complaint>) -> Result<(), PolicyError> {
    result.map_err(|complaint| PolicyError::flag(field, complaint))
}

fn expect(is_so: bool, what: &str) -> Result<(), Complaint> {
    if is_so {
        return Ok(());
    }
    Err(Complaint::new(format!("expected {what}, found something else")))
}

fn absolute(path: &Path) -> Result<(), Complaint> {
    no_nul(&path.to_string_lossy())?;
    let is_straight = !path.components().any(|part| part == Component::ParentDir);
    expect(path.is_absolute() && is_straight, "an absolute path without \"..\"")
}

fn no_nul(text: &str) -> Result<(), Complaint> {
    expect(!text.contains('\0'), "text without a NUL byte")
}

fn check_rules(rules: &[Rule], budget: &mut Budget) -> Result<(), Complaint> {
    for (index, rule) in rules.iter().enumerate() {
        expect(!rules.iter().take(index).any(|other| other == rule), "each rule once")?;
        budget.spend(rule)?;
    }
    Ok(())
}

fn check_command(words: &[String]) -> Result<(), Complaint> {
    let is_named = words.first().is_some_and(|program| !program.is_empty());
    expect(is_named, "a program and its arguments")?;
    words.iter().try_for_each(|word| no_nul(word))
}

fn check_source(source: &SecretSource) -> Result<(), Complaint> {
    match source {
        SecretSource::Env(name) => variables::check_grammar(name)
            .map_err(|_| Complaint::new("expected the name of a variable, found something else")),
        SecretSource::File(path) => absolute(path),
        SecretSource::Command(words) => check_command(words),
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
