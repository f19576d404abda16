//! Names in a workspace that a host tool later executes or trusts, as data.
//!
//! Runs in: any (pure data).
//!
//! The agent may write the workspace; afterwards a person opens it, enters it or uses git in it, *outside*
//! the box. A name is in the list when some host tool then, **by itself**, runs what the file says or
//! obeys it as settings: a git hook, a shell's entry file, an editor's task, a coding agent's hook or MCP
//! server. Such a name is read-only in the box where it exists; where it does not, its creation is
//! reported. An entry applies only where it is of the kind that the row names, and starts at the
//! workspace's top: a repository inside the workspace is found by whoever looks for it.
//!
//! Not in the list, and why:
//!
//! - `CLAUDE.md`, `AGENTS.md`, `GEMINI.md`, `.cursorrules`, `.github/copilot-instructions.md`: memory that
//!   agents are asked to keep. It speaks to a model; what the model then does is held by that model's own
//!   walls.
//! - the project's code, however it is started: `package.json`, `Makefile`, `build.rs`, `conftest.py`,
//!   `.cargo/config.toml`, `rust-toolchain.toml`, `.eslintrc.js`, `.venv`, `node_modules`. Changing it is
//!   the agent's work; whoever builds it on the host runs it, and reviews it first.
//! - `.npmrc`, `.yarnrc.yml`, `pip.conf`, `.env`: an agent must be able to install and configure.
//! - `.github/workflows`, `.gitlab-ci.yml`: executed by a service after a push, not by the host.
//! - `.gitattributes`, `.git/info/attributes`: they choose among filters that the git configuration
//!   defines, and define none. `.git/info/exclude`, refs, objects and the index name no program.
//! - `.python-version`, `.nvmrc`, `.node-version`: a version, not a path.

/// What a trusted name has to be for its row to apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory, with all that lies below it.
    Directory,
}

/// One name that a host tool executes or trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrustedPath {
    /// The path, starting at the workspace or at a git directory.
    pub path: &'static str,
    /// What it has to be for this row to apply.
    pub kind: PathKind,
    /// What the host would do with it, in the words of a message: "is read-only: REASON".
    pub reason: &'static str,
}

const fn file(path: &'static str, reason: &'static str) -> TrustedPath {
    TrustedPath { path, kind: PathKind::File, reason }
}

const fn directory(path: &'static str, reason: &'static str) -> TrustedPath {
    TrustedPath { path, kind: PathKind::Directory, reason }
}

const HOOKS: &str = "git runs these programs on commit, checkout, merge and push";
const CONFIG: &str = "names programs that git runs (core.fsmonitor, core.sshCommand, aliases)";
const WORKTREE_CONFIG: &str = "git reads it beside config, with the same powers";
const COMMON: &str = "names the directory whose config and hooks git obeys";
const HOOK_RUNNER: &str = "names programs that a git hook runs";
const EDITOR: &str = "an editor runs its tasks and the programs that its settings name";
const ENTRY: &str = "a shell runs it when it enters the directory";
const VERSIONS: &str = "names the directories that a version manager runs programs from";
const AGENT: &str = "a coding agent runs its hooks and MCP servers and obeys its permissions";

/// Names that a host tool executes or trusts, starting at the workspace.
pub const TRUSTED_PATHS: &[TrustedPath] = &[
    // git and other version control. A file `.git` belongs to a linked worktree or a submodule.
    file(".git", "names the git directory whose config and hooks git obeys"),
    directory(".git/hooks", HOOKS),
    file(".git/config", CONFIG),
    file(".git/config.worktree", WORKTREE_CONFIG),
    file(".git/commondir", COMMON),
    file(".gitmodules", "git takes addresses and options of submodules from it"),
    directory(".githooks", HOOKS),
    directory(".husky", HOOKS),
    file(".pre-commit-config.yaml", HOOK_RUNNER),
    file("lefthook.yml", HOOK_RUNNER),
    file(".lefthook.yml", HOOK_RUNNER),
    file(".hg/hgrc", "names hooks and extensions that hg runs"),
    file(".jj/repo/config.toml", "names programs that jj runs"),
    // Editors.
    directory(".vscode", EDITOR),
    directory(".idea", EDITOR),
    directory(".zed", EDITOR),
    directory(".helix", EDITOR),
    directory(".devcontainer", EDITOR),
    file(".devcontainer.json", EDITOR),
    file(".nvim.lua", EDITOR),
    file(".nvimrc", EDITOR),
    file(".exrc", EDITOR),
    file(".dir-locals.el", EDITOR),
    // Shell entry and version managers.
    file(".envrc", ENTRY),
    directory(".direnv", ENTRY),
    file("mise.toml", ENTRY),
    file(".mise.toml", ENTRY),
    file("mise.local.toml", ENTRY),
    file(".mise.local.toml", ENTRY),
    file("mise/config.toml", ENTRY),
    directory(".mise", ENTRY),
    directory(".config/mise", ENTRY),
    file(".config/mise.toml", ENTRY),
    file(".tool-versions", VERSIONS),
    // Coding agents.
    directory(".claude", AGENT),
    file(".mcp.json", AGENT),
    directory(".cursor", AGENT),
    directory(".codex", AGENT),
    directory(".gemini", AGENT),
    directory(".opencode", AGENT),
    file("opencode.json", AGENT),
    file("opencode.jsonc", AGENT),
    directory(".github/hooks", AGENT),
    directory(".windsurf", AGENT),
    directory(".continue", AGENT),
    directory(".roo", AGENT),
    directory(".kiro", AGENT),
    directory(".amazonq", AGENT),
    directory(".qwen", AGENT),
    directory(".factory", AGENT),
    directory(".vibe", AGENT),
    directory(".kimi", AGENT),
    directory(".grok", AGENT),
    directory(".junie", AGENT),
    file("crush.json", AGENT),
    file(".crush.json", AGENT),
    file(".aider.conf.yml", AGENT),
];

/// The same for git directories elsewhere: what a linked worktree's `.git` file names, the common
/// directory of that, and each `.git/modules/...`. The paths start at the git directory.
pub const TRUSTED_GIT_PATHS: &[TrustedPath] = &[
    directory("hooks", HOOKS),
    file("config", CONFIG),
    file("config.worktree", WORKTREE_CONFIG),
    file("commondir", COMMON),
];

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
