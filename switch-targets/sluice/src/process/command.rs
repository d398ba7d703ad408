//! The command line: what to do.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::dataplane::trace::{FieldTest, Filter, Format, Pattern};
use crate::process::config;
use crate::process::dev::DevArgs;

const AFTER_HELP: &str = "\
Examples:
  sluice run --device-id 1 --port 1=wan --port 2=lan --grpc 10.255.0.2:9559 \\
      --cert gateway.pem --key gateway.key --client-ca ca.pem --client-name controller --kek kek.bin
  sluice dev program.json program.p4info.txtpb -i 1@veth0 -i 2@veth2
  sluice check gateway.json gateway.p4info.txtpb
  sluice trace --json gateway.json --p4info gateway.p4info.txtpb --entries entries.txtpb --port 1 packets.pcap
  sluice trace --control /run/sluice/control --port 1 --count 5 --where ipv4.dst=10.0.0.0/8
  sluice trace --control /run/sluice/control --dropped --match 12:0800
  sluice reload --control /run/sluice/control

Environment:
  RUST_LOG       level of the log: error, warn, info (default), debug, trace
  NOTIFY_SOCKET, WATCHDOG_USEC
                 set by systemd: readiness and the watchdog are told there

Exit codes:
  0  done, or told to end (SIGTERM, SIGINT)
  1  a fault; it says what happened and what to do
  2  bad usage

Without a command, run.";

/// A P4 software switch: runs a v1model program on network interfaces, and serves P4Runtime over mutual TLS
///
/// It starts without a program and forwards nothing until a controller pushes one. Needs the capability CAP_NET_RAW; with
/// CAP_SYS_NICE packets come first.
#[derive(Debug, Parser)]
#[command(
    name = "sluice",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = AFTER_HELP
)]
pub struct CommandLine {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: Option<config::Args>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the switch until told to end
    Run(config::Args),
    /// Run a P4 developer's switch: without certificates, keys and controller, on this computer alone
    Dev(DevArgs),
    /// Show the way of packets through a program
    Trace(TraceArgs),
    /// Have a running switch go on in a new process, without the loss of a packet or an SA: after an upgrade, or with another program
    Reload(ReloadArgs),
    /// Load a program as the switch would, and say what is in it or where its fault is
    Check(ProgramArgs),
}

#[derive(Clone, Debug, Args)]
pub struct ProgramArgs {
    /// The program as p4c's bmv2 back end writes it
    pub json: PathBuf,
    /// The program's P4Info, in text form
    pub p4info: PathBuf,
}

/// The new process has the options of the running one, and the program on the disk now. If it can't take over, the running one
/// goes on, and says why.
#[derive(Clone, Debug, Args)]
pub struct ReloadArgs {
    /// The --control of the switch
    #[arg(long, value_name = "PATH")]
    pub control: PathBuf,

    /// Another program, as p4c's bmv2 back end writes it. Entries, counters and registers that fit it are kept; if an entry does not
    /// fit, nothing changes
    #[arg(long, value_name = "FILE", requires = "p4info")]
    pub json: Option<PathBuf>,

    /// The other program's P4Info, in text form
    #[arg(long, value_name = "FILE", requires = "json")]
    pub p4info: Option<PathBuf>,

    /// The other program's cookie, by which a controller recognises it
    #[arg(long, value_name = "NUMBER", requires = "json")]
    pub cookie: Option<u64>,
}

/// Give either a running switch (--control) or a program and packets.
#[derive(Clone, Debug, Args)]
pub struct TraceArgs {
    /// Trace real packets of the switch that runs with this --control
    #[arg(long, value_name = "PATH", conflicts_with_all = ["json", "p4info", "entries", "packets"])]
    pub control: Option<PathBuf>,

    /// Number of packets of the running switch to wait for
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=crate::process::trace_control::MAX_COUNT), conflicts_with = "json")]
    pub count: u64,

    /// Show only packets with these bytes at this offset, under a mask of the same length: 12:0800, 14:40/f0
    #[arg(
        long = "match",
        value_name = "OFFSET:HEX[/MASK]",
        help_heading = "Filters"
    )]
    pub pattern: Option<Pattern>,

    /// Show only packets with this value in a field that the parser extracts: ethernet.type=0x0800, ipv4.dst=10.0.0.0/8. Repeat it:
    /// all must hold
    #[arg(
        long = "where",
        value_name = "HEADER.FIELD=VALUE[/BITS]",
        help_heading = "Filters"
    )]
    pub fields: Vec<FieldTest>,

    /// Show only packets that are dropped, or of which a copy is
    #[arg(long, help_heading = "Filters")]
    pub dropped: bool,

    /// The program as p4c's bmv2 back end writes it
    #[arg(long, value_name = "FILE", required_unless_present = "control")]
    pub json: Option<PathBuf>,

    /// The program's P4Info, in text form
    #[arg(long, value_name = "FILE", required_unless_present = "control")]
    pub p4info: Option<PathBuf>,

    /// Entries to write to the program first: a p4.v1.WriteRequest in text form
    #[arg(long, value_name = "FILE")]
    pub entries: Option<PathBuf>,

    /// The port that packets come in at; any port of a running switch without
    #[arg(long, value_name = "NUMBER", required_unless_present = "control")]
    pub port: Option<u16>,

    /// Form of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// A frame in hex, or a capture (pcap), each
    #[arg(required_unless_present = "control")]
    pub packets: Vec<String>,
}

impl TraceArgs {
    pub fn filter(&self) -> Filter {
        Filter {
            port: self.port,
            count: usize::try_from(self.count).unwrap_or(1),
            pattern: self.pattern.clone(),
            fields: self.fields.clone(),
            dropped: self.dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const RUN: &str = "--device-id 1 --port 1=a --grpc 127.0.0.1:1 --cert c --key k --client-ca a --client-name n --kek k";

    fn parse(words: &str) -> Result<CommandLine, String> {
        let words = ["sluice"].into_iter().chain(words.split_whitespace());
        CommandLine::try_parse_from(words).map_err(|error| error.to_string())
    }

    #[test]
    fn run_is_the_default() {
        assert_eq!(parse(RUN).unwrap().run.unwrap().device_id, 1);
        let named = parse(&format!("run {RUN}")).unwrap().command;
        assert!(matches!(named, Some(Command::Run(args)) if args.device_id == 1));
        assert!(parse("--device-id 1").unwrap_err().contains("--grpc"));
    }

    #[test]
    fn a_trace_has_one_source() {
        assert!(parse("trace --control p").is_ok());
        assert!(parse("trace --json a --p4info b --port 1 00ff").is_ok());
        for (words, reason) in [
            ("trace --port 1", "--json"),
            ("trace --json a --p4info b 00", "--port"),
            ("trace --control p --json a --port 1", "cannot be used with"),
            (
                "trace --json a --p4info b --port 1 --count 2 00",
                "cannot be used with",
            ),
            ("trace --control p --port 1 --match 0800", "OFFSET:HEX"),
            ("trace --control p --where ipv4", "HEADER.FIELD=VALUE"),
            ("trace --control p --port 1 --count 0", "0 is not in"),
        ] {
            let error = parse(words).unwrap_err();
            assert!(error.contains(reason), "{words}: {error}");
        }
    }
}
