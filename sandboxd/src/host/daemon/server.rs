//! Starts MCP servers for the relay: a compartment of its own, secrets read now, pipes of its own.
//!
//! Runs in: host (tokio).

use std::collections::BTreeMap;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use policy::syscalls::Profile;
use policy::{EnvValue, SecretName, Server, ServerDirectory, ServerName};
use relay::host::{Child, Ending, Process, SpawnError, Spawner};
use relay::log::Redactor;
use sandbox_sys::{Failing, Failure};
use tokio::net::unix::pipe;

use super::code;
use super::secret::{SecretError, Store};
use crate::api::Secret;
use crate::fault::{Fault, Kind};
use crate::host::{Compartment, Job, Prepared, Session, SessionError, Streams};
use crate::wire::{self, CompartmentOrder};

/// Starts one server, again and again if need be.
#[derive(Debug)]
pub(super) struct Starter {
    pub(super) name: ServerName,
    pub(super) server: Server,
    pub(super) session: Arc<Session>,
    /// The place of its own network, when it has one.
    pub(super) network: Option<usize>,
    pub(super) prepared: Arc<Prepared>,
    pub(super) secrets: Arc<Store>,
    /// Takes this server's secrets out of its log and of every error about it.
    pub(super) redactor: Redactor,
}

impl Spawner for Starter {
    fn spawn(&self) -> Pin<Box<dyn Future<Output = Result<Child, SpawnError>> + Send + '_>> {
        Box::pin(async {
            self.start().await.map_err(|fault| SpawnError { message: fault.message })
        })
    }
}

impl Starter {
    /// Refuses a server that would hand its secret to whoever edits the workspace.
    pub(super) fn check(&self) -> Result<(), Fault> {
        for name in self.server.secrets() {
            self.secrets.check(name).map_err(|error| refuse(name, &error))?;
        }
        let environment = self.literals();
        code::check(code::Start {
            name: self.name.as_str(),
            server: &self.server,
            plan: self.prepared.plan(),
            path: environment.get("PATH").map_or("", String::as_str),
            directory: &self.directory(),
        })
    }

    fn directory(&self) -> PathBuf {
        match (self.server.cwd, &self.prepared.workspace) {
            (ServerDirectory::Workspace, Some((tree, _))) => tree.source.path.clone(),
            (ServerDirectory::Workspace, None) | (ServerDirectory::Home, _) => {
                self.prepared.home.clone()
            }
        }
    }

    /// The environment but for its secrets.
    fn literals(&self) -> BTreeMap<String, String> {
        let mut all = self.prepared.base.clone();
        for (name, value) in &self.server.env {
            if let EnvValue::Literal(text) = value {
                all.insert(name.clone(), text.clone());
            }
        }
        all
    }

    async fn start(&self) -> Result<Child, Fault> {
        // What a path of the command is may have changed since the session was made.
        self.check()?;
        let values = self.read_secrets().await?;
        self.redactor.learn(values.values().map(Secret::expose));
        let order = CompartmentOrder {
            profile: Profile::Server,
            landlock_required: self.prepared.landlock_required,
            network: self.network,
        };
        let compartment = self.session.compartment(order).await?;
        let mut environment = self.literals();
        for (name, value) in &self.server.env {
            if let EnvValue::Secret { name: secret, prefix } = value {
                let value = values.get(secret.as_str()).map_or("", Secret::expose);
                environment.insert(name.clone(), format!("{prefix}{value}"));
            }
        }
        let argv = self.server.command.iter().map(|word| word.clone().into_bytes()).collect();
        let spec = self.prepared.command(argv, &environment, &self.directory());
        environment.values_mut().for_each(zeroize::Zeroize::zeroize);
        let pipes = Pipes::make().map_err(SessionError::Host)?;
        let job = compartment.launch(&spec, Streams::Pipes(pipes.theirs)).await?;
        let [stdin, stdout, stderr] = pipes.ours;
        let watch = |error: std::io::Error| Fault::chain(Kind::Host, &error);
        Ok(Child {
            stdin: pipe::Sender::from_owned_fd(stdin).map_err(watch)?,
            stdout: pipe::Receiver::from_owned_fd(stdout).map_err(watch)?,
            stderr: pipe::Receiver::from_owned_fd(stderr).map_err(watch)?,
            pid: u32::try_from(job.pid).unwrap_or(0),
            process: Box::new(Running { job, compartment }),
        })
    }

    async fn read_secrets(&self) -> Result<BTreeMap<String, Secret>, Fault> {
        let mut values = BTreeMap::new();
        for name in self.server.secrets() {
            let value = self.secrets.read(name).await;
            let value = value.map_err(|error| refuse(name, &error))?;
            values.insert(name.to_string(), value);
        }
        Ok(values)
    }
}

fn refuse(name: &SecretName, error: &SecretError) -> Fault {
    let mut fault = Fault::chain(Kind::User, error).field(format!("secrets.{name}"));
    fault.message = format!("host: {}", fault.message);
    if let SecretError::Exposed { .. } = error {
        fault.hint =
            Some("keep it outside the workspace and every other read-write mount".to_owned());
    }
    fault
}

/// Three pipes: the child's ends block, ours do not.
struct Pipes {
    theirs: [OwnedFd; 3],
    ours: [OwnedFd; 3],
}

impl Pipes {
    fn make() -> Result<Self, Failure> {
        let pipe = || nix::unistd::pipe2(OFlag::O_CLOEXEC).failing("make a pipe");
        let ((input, stdin), (stdout, output), (stderr, error)) = (pipe()?, pipe()?, pipe()?);
        for ours in [&stdin, &stdout, &stderr] {
            fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).failing("make a pipe")?;
        }
        Ok(Self { theirs: [input, output, error], ours: [stdin, stdout, stderr] })
    }
}

/// A child of the relay's: a command, and the compartment that is its own.
struct Running {
    job: Job,
    compartment: Compartment,
}

impl Process for Running {
    fn exited(&mut self) -> Pin<Box<dyn Future<Output = Ending> + Send + '_>> {
        Box::pin(async {
            match self.job.wait().await {
                wire::Ending::Status(status) => Ending::Code(status),
                wire::Ending::Signal(signal) => Ending::Signal(signal),
            }
        })
    }

    fn terminate(&mut self) {
        self.job.signaller().signal(nix::libc::SIGTERM);
    }

    fn kill(&mut self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.compartment.end())
    }
}
