//! What is looked at in a Linux initiator, and where: a table.
//!
//! Compilers inline functions, and kernels differ; so a hook has alternatives, of which the first is
//! taken that the kernel accepts. Those of `drivers/nvme/host/tcp.c` are named as Linux 7.2 has them.
//! Fields of arguments are found by the kernel's type information (BTF; Linux 6.6).

use super::event::Unfit;
use std::fmt::Write;

/// Something that happens to an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// The block layer gives a request to nvme-tcp.
    Queued,
    /// The command of the request is built.
    Setup,
    /// A send of the capsule begins.
    SendCommand,
    /// A send of data begins.
    SendData,
    /// A send of a data digest begins.
    SendDigest,
    /// The target asks for data (R2T).
    R2t,
    /// Bytes have come to a connection's socket.
    Ready,
    /// nvme-tcp begins to read them.
    Read,
    Completed,
}

/// The kernel's means by which a hook becomes an event of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// At the entry of a function, by ftrace (`f:`).
    Function,
    /// At the entry of a function, by a breakpoint or a jump (`p:`).
    Kprobe,
    /// On a tracepoint that has no event of its own (`t:`).
    Tracepoint,
    /// An event that the kernel has.
    Event,
}

/// One way to observe a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alternative {
    pub probe: Probe,
    /// The function, the tracepoint, or the event as `group/name`.
    pub at: &'static str,
    /// Arguments to fetch, in the syntax of `dynamic_events`.
    pub args: &'static str,
}

/// A hook, and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct HookUse {
    pub hook: Hook,
    /// What it is called in coverage reports, and its event.
    pub name: &'static str,
    /// What records lack without it, for people.
    pub without: &'static str,
    /// Whether there are no records without it.
    pub is_needed: bool,
    /// Fields that its events have to have.
    pub fields: &'static [&'static str],
    /// Ways to observe it, the best first.
    pub alternatives: &'static [Alternative],
}

/// Hooks and probes that the user has excluded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    hooks: Vec<Hook>,
    probes: Vec<Probe>,
}

/// Probes that can be excluded, by name.
const PROBES: [(&str, Probe); 3] =
    [("fprobe", Probe::Function), ("kprobe", Probe::Kprobe), ("tracepoint", Probe::Tracepoint)];

/// Something that cannot be left out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` cannot be left out; what can is {valid}")]
pub struct NotLeftOut {
    /// The name that was given.
    pub found: String,
    /// Names that can be left out.
    pub valid: String,
}

impl LeftOut {
    /// Adds a hook, or a way to see something, by its name.
    ///
    /// # Errors
    /// If it is none, or one without which there are no records.
    pub fn add(&mut self, name: &str) -> Result<(), NotLeftOut> {
        let hooks = || HOOKS.iter().filter(|it| !it.is_needed);
        if let Some(of) = hooks().find(|it| it.name == name) {
            self.hooks.push(of.hook);
        } else if let Some((_, probe)) = PROBES.iter().find(|(it, _)| *it == name) {
            self.probes.push(*probe);
        } else {
            let names = hooks().map(|it| it.name).chain(PROBES.map(|(name, _)| name));
            let valid = names.collect::<Vec<_>>().join(", ");
            return Err(NotLeftOut { found: name.chars().take(40).collect(), valid });
        }
        Ok(())
    }

    /// Whether a hook is excluded.
    pub fn has(&self, hook: Hook) -> bool {
        self.hooks.contains(&hook)
    }

    /// Whether this kind of probe is excluded.
    pub fn has_probe(&self, probe: Probe) -> bool {
        self.probes.contains(&probe)
    }
}

const fn function(at: &'static str, args: &'static str) -> Alternative {
    Alternative { probe: Probe::Function, at, args }
}

const fn kprobe(at: &'static str, args: &'static str) -> Alternative {
    Alternative { probe: Probe::Kprobe, at, args }
}

const QUEUED: &str = "queue=hctx->driver_data tag=bd->rq->tag bytes=bd->rq->__data_len \
                      started=bd->rq->start_time_ns";
const OF_REQUEST: &str = "queue=req->queue cid=req->req.cmd->common.command_id";
const OF_SOCKET: &str = "queue=sk->sk_user_data";
const ASKED: &str = "queue=req->queue cid=req->req.cmd->common.command_id cut=req->pdu_len";
const OF_R2T: &str = "queue cid=pdu->command_id cut=\\0";
const COMMAND: &[&str] = &["queue", "cid"];
const QUEUE: &[&str] = &["queue"];

/// All hooks, in the order in which an I/O passes them.
pub const HOOKS: [HookUse; 9] = [
    HookUse {
        hook: Hook::Queued,
        name: "queued",
        without: "no host_queue; sends, arrivals and reads belong to nobody, all is `remote`",
        is_needed: false,
        fields: &["queue", "tag", "bytes", "started"],
        alternatives: &[function("nvme_tcp_queue_rq", QUEUED), kprobe("nvme_tcp_queue_rq", QUEUED)],
    },
    HookUse {
        hook: Hook::Setup,
        name: "setup",
        without: "no records",
        is_needed: true,
        fields: &["ctrl_id", "qid", "cid", "opcode", "fctype", "nsid", "cdw10"],
        alternatives: &[Alternative { probe: Probe::Event, at: "nvme/nvme_setup_cmd", args: "" }],
    },
    HookUse {
        hook: Hook::SendCommand,
        name: "send_command",
        without: "no host_submit, it is part of `remote`; capsules are not counted",
        is_needed: false,
        fields: COMMAND,
        alternatives: &[
            function("nvme_tcp_try_send_cmd_pdu", OF_REQUEST),
            kprobe("nvme_tcp_try_send_cmd_pdu", OF_REQUEST),
        ],
    },
    HookUse {
        hook: Hook::SendData,
        name: "send_data",
        without: "data of writes leave with the command, or when they are asked for",
        is_needed: false,
        fields: COMMAND,
        alternatives: &[
            function("nvme_tcp_try_send_data", OF_REQUEST),
            kprobe("nvme_tcp_try_send_data", OF_REQUEST),
        ],
    },
    HookUse {
        hook: Hook::SendDigest,
        name: "send_digest",
        without: "with data digests, data of writes leave when the digest has yet to",
        is_needed: false,
        fields: COMMAND,
        alternatives: &[
            function("nvme_tcp_try_send_ddgst", OF_REQUEST),
            kprobe("nvme_tcp_try_send_ddgst", OF_REQUEST),
        ],
    },
    HookUse {
        hook: Hook::R2t,
        name: "asked",
        without: "no r2t_wait, host_turn and r2t_further: they are part of host_submit",
        is_needed: false,
        fields: &["queue", "cid", "cut"],
        alternatives: &[
            function("nvme_tcp_setup_h2c_data_pdu", ASKED),
            kprobe("nvme_tcp_setup_h2c_data_pdu", ASKED),
            function("nvme_tcp_handle_r2t", OF_R2T),
            kprobe("nvme_tcp_handle_r2t", OF_R2T),
        ],
    },
    HookUse {
        hook: Hook::Ready,
        name: "ready",
        without: "answers come when they are read: host_receive is part of `remote`",
        is_needed: false,
        fields: QUEUE,
        alternatives: &[
            function("nvme_tcp_data_ready", OF_SOCKET),
            kprobe("nvme_tcp_data_ready", OF_SOCKET),
            Alternative { probe: Probe::Tracepoint, at: "sk_data_ready", args: OF_SOCKET },
        ],
    },
    HookUse {
        hook: Hook::Read,
        name: "read",
        without: "no host_receive and host_complete: they are part of `remote`",
        is_needed: false,
        fields: QUEUE,
        alternatives: &[
            function("nvme_tcp_recv_skb", "queue=desc->arg.data"),
            kprobe("nvme_tcp_recv_skb", "queue=desc->arg.data"),
            function("nvme_tcp_try_recv", "queue"),
            kprobe("nvme_tcp_try_recv", "queue"),
        ],
    },
    HookUse {
        hook: Hook::Completed,
        name: "completed",
        without: "no records",
        is_needed: true,
        fields: &["ctrl_id", "qid", "cid", "status"],
        alternatives: &[Alternative { probe: Probe::Event, at: "nvme/nvme_complete_rq", args: "" }],
    },
];

impl Alternative {
    /// The line for `dynamic_events` that makes an event of this group and name; `None` of an event
    /// that is there.
    pub fn definition(&self, group: &str, name: &str) -> Option<String> {
        let letter = match self.probe {
            Probe::Function => 'f',
            Probe::Kprobe => 'p',
            Probe::Tracepoint => 't',
            Probe::Event => return None,
        };
        Some(format!("{letter}:{group}/{name} {} {}", self.at, self.args))
    }
}

impl std::fmt::Display for Alternative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.probe {
            Probe::Function => write!(f, "fprobe {}", self.at),
            Probe::Kprobe => write!(f, "kprobe {}", self.at),
            Probe::Tracepoint => write!(f, "tracepoint {}", self.at),
            Probe::Event => write!(f, "event {}", self.at.replace('/', ":")),
        }
    }
}

/// Which hook is seen how, and what is missing, for people. Beside one that is missing stands what the
/// kernel said last.
pub fn coverage_text(found: &[(Hook, Result<Alternative, String>)]) -> String {
    let mut text = String::new();
    for HookUse { hook, name, without, .. } in &HOOKS {
        let one = found.iter().find(|(it, _)| it == hook);
        let _ = match one {
            Some((_, Ok(alternative))) => writeln!(text, "  {name:<14}{alternative}"),
            Some((_, Err(why))) => writeln!(text, "  {name:<14}missing ({why}): {without}"),
            None => writeln!(text, "  {name:<14}missing: {without}"),
        };
    }
    text
}

impl HookUse {
    pub fn of(hook: Hook) -> &'static HookUse {
        HOOKS.iter().find(|it| it.hook == hook).unwrap_or(&HOOKS[0])
    }

    /// The error that the kernel's event lacks this field.
    pub(super) fn unfit(&self, field: &'static str) -> Unfit {
        Unfit { event: self.name, field }
    }
}
