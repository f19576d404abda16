//! `[egress]` and the `egress` of a server.
//!
//! Runs in: any (pure data).

use super::node::Node;
use super::schema;
use crate::egress::{Budget, Egress, EgressMode, Resolver, Rule};
use crate::error::{Complaint, PolicyError};

const RULES: &str = "an array of rules such as \"github.com:22,443\"";

/// Reads the table. Something that is allowed implies `mode = "filter"`.
pub(super) fn read(node: &Node<'_>, budget: &mut Budget) -> Result<Egress, PolicyError> {
    let fields = node.fields(&schema::EGRESS)?;
    let said = fields.find("mode").map(|mode| read_mode(&mode)).transpose()?;
    let at = fields.find("allow");
    let allow = at.as_ref().map(|allow| rules(allow, budget)).transpose()?.unwrap_or_default();
    if let (Some(at), Some(EgressMode::None), false) = (at, said, allow.is_empty()) {
        let message = "expected no rules beside mode = \"none\"";
        return Err(at.refuse(Complaint::new(message).hint("rules alone imply mode = \"filter\"")));
    }
    let implied = if allow.is_empty() { EgressMode::None } else { EgressMode::Filter };
    let resolver = fields.find("resolver").map(|at| read_resolver(&at)).transpose()?;
    Ok(Egress { mode: said.unwrap_or(implied), allow, resolver })
}

fn read_mode(node: &Node<'_>) -> Result<EgressMode, PolicyError> {
    match node.text("\"none\" or \"filter\"")? {
        later @ ("ask" | "audit") => {
            let message = format!(
                "\"{later}\" is not enforced by this version of sandboxd, which has \"none\" and \"filter\""
            );
            Err(node.refuse(Complaint::new(message)))
        }
        _ => node.word(&[("none", EgressMode::None), ("filter", EgressMode::Filter)]),
    }
}

fn read_resolver(node: &Node<'_>) -> Result<Resolver, PolicyError> {
    let text = node.text("the address of a DNS server")?;
    text.parse().map_err(|wrong| node.refuse(Complaint::new(format!("{wrong}"))))
}

/// Reads a list of rules; one that stands there twice counts once.
pub(super) fn rules(node: &Node<'_>, budget: &mut Budget) -> Result<Vec<Rule>, PolicyError> {
    let mut rules = Vec::new();
    for element in node.list(RULES)? {
        let text = element.text("a rule such as \"github.com:22,443\"")?;
        let rule: Rule = text.parse().map_err(|wrong| element.refuse(Complaint::from(wrong)))?;
        if !rules.contains(&rule) {
            budget.spend(&rule).map_err(|wrong| element.refuse(wrong))?;
            rules.push(rule);
        }
    }
    Ok(rules)
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
