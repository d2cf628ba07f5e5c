//! Arguments that make no sense: exit status 2, and one line that says what is wrong.

use weft_netif::Spec;

use crate::help::commands_of;
use crate::process::run;

/// Arguments, and the line about them.
const TABLE: [(&str, &str); 104] = [
    (
        "",
        "weft: a command is missing: demo, rping, run, sockets, daemon, decode, exs, group, conform, stat and bench (`weft --help` explains",
    ),
    (
        "frobnicate",
        "weft: there is no command `frobnicate` (there are demo, rping, run, sockets, daemon, decode, exs, group, conform, stat and bench)",
    ),
    ("help frobnicate", "weft: there is no command `frobnicate` (there are demo, rping, run,"),
    (
        "bench frobnicate",
        "weft bench: there is no command `frobnicate` (there are run, sweep, sockets, group, exs and loss)",
    ),
    (
        "help bench frobnicate",
        "weft bench: there is no command `frobnicate` (there are run, sweep, sockets, group, exs and loss)",
    ),
    (
        "bench --quick frobnicate",
        "weft bench: there is no command `frobnicate` (there are run, sweep, sockets, group, exs and loss)",
    ),
    (
        "bench run frobnicate",
        "weft bench run: `frobnicate` is not expected here (`weft bench run --help` lists",
    ),
    (
        "bench sockets frobnicate",
        "weft bench sockets: `frobnicate` is not expected here (`weft bench sockets --help`",
    ),
    ("bench sockets --turn x", "weft bench sockets: --turn: `x` is not a whole number"),
    ("bench sockets --turn 60001", "weft bench sockets: --turn: 60001 is not in 1..=60000"),
    ("demo frobnicate", "weft demo: `frobnicate` is not expected here (`weft demo --help` lists"),
    (
        "stat frobnicate",
        "weft stat: PID: `frobnicate` is neither the number of a process nor that of a device",
    ),
    ("--json", "weft: `--json` is not expected here"),
    ("demo --mtu 575", "weft demo: --mtu: `575` is not a whole number from 576 to 65535"),
    ("demo --mtu 65536", "weft demo: --mtu: `65536` is not a whole number from 576 to 65535"),
    ("demo --mtu -1", "weft demo: --mtu: `-1` is not a whole number from 576 to 65535"),
    ("demo --mtu 1e3", "weft demo: --mtu: `1e3` is not a whole number"),
    ("demo --mtu", "weft demo: --mtu needs a value: --mtu <N>"),
    ("demo --mtu 1500 --mtu 9000", "weft demo: --mtu is given twice"),
    ("demo --loss 0.6", "weft demo: --loss: `0.6` is not a number from 0 to 0.5"),
    ("demo --loss -0.1", "weft demo: --loss: `-0.1` is not a number from 0 to 0.5"),
    ("demo --loss NaN", "weft demo: --loss: `NaN` is not a number from 0 to 0.5"),
    ("demo --rate 0", "weft demo: --rate: `0` is not a whole number from 1 to 1000000000000"),
    ("demo --queue 9", "weft demo: missing: --rate <BIT/S> (`weft demo --help` has examples)"),
    ("demo --seed ten", "weft demo: --seed: `ten` is not a whole number from 0 to 18446744073709551615"),
    ("demo --json=yes", "weft demo: --json takes no value"),
    ("demo --marker", "weft demo: `--marker` is not expected here (perhaps --markers was meant"),
    ("demo more", "weft demo: `more` is not expected here (`weft demo --help` lists what is)"),
    ("demo --pcap /nonexistent/x.pcap", "weft demo: cannot write /nonexistent/x.pcap: No such file"),
    ("decode", "weft decode: missing: <FILE>"),
    ("decode /nonexistent.pcap", "weft decode: /nonexistent.pcap: No such file"),
    ("decode a b", "weft decode: `b` is not expected here"),
    ("rping", "weft rping: missing: --netif <SPEC>, -s or -c"),
    ("rping -s", "weft rping: missing: --netif <SPEC>"),
    ("rping -s NET", "weft rping: unix-listen:/nonexistent/w needs an IP address of this side's own"),
    ("rping -s --netif host IP", "weft rping: --ip is for the other devices: host has the operating"),
    ("rping -s --netif host --pcap x", "weft rping: --pcap is for the other devices"),
    ("rping -c --netif host", "weft rping: the client needs the server's address"),
    ("rping -c --netif host -a 0.0.0.0", "weft rping: 0.0.0.0:7174: the remote address or port cannot be"),
    (
        "rping -s --netif host -a 192.0.2.1",
        "weft rping: port 7174: the address to listen on is not an own address",
    ),
    ("conform 10.0.0.1 --netif host IP", "weft conform: host is the operating system's own TCP"),
    ("rping NET IP", "weft rping: missing: -s or -c (`weft rping --help` has examples)"),
    ("rping -s -c NET IP", "weft rping: -s and -c exclude each other"),
    ("rping -c NET IP", "weft rping: the client needs the server's address, for example -a 10.0.0.1"),
    ("rping -c -a host NET IP", "weft rping: -a: `host` is no IP address"),
    ("rping -c -a 10.9.9.9 NET IP", "weft rping: 10.9.9.9 is outside the net of 10.0.0.2/24; a gateway"),
    ("rping -c -a fd00::1 NET IP", "weft rping: the server's address fd00::1 and the own address 10.0.0.2"),
    ("rping -c -a 0.0.0.0 NET IP", "weft rping: 0.0.0.0 is not the address of a server"),
    ("rping -c -a 10.0.0.255 NET IP", "weft rping: 10.0.0.255 is not the address of a server"),
    ("rping -c -a 224.0.0.1 NET IP", "weft rping: 224.0.0.1 is not the address of a server"),
    ("rping -c -a 10.0.0.1 -S 0 NET IP", "weft rping: -S: `0` is not a whole number from 1 to 4194304"),
    ("rping -c -a 10.0.0.1 -S 4194305 NET IP", "weft rping: -S: `4194305` is not a whole number"),
    ("rping -c -a 10.0.0.1 -p 65536 NET IP", "weft rping: -p: `65536` is not a whole number from 1 to"),
    ("rping -c -a 10.0.0.1 -C -1 NET IP", "weft rping: -C: `-1` is not a whole number from 0 to"),
    ("rping -c -a 10.0.0.1 --timeout 0 NET IP", "weft rping: --timeout: `0` is not a whole number"),
    ("rping -c -P -a 10.0.0.1 NET IP", "weft rping: -c and -P exclude each other"),
    ("rping -c --silence 9 -a 10.0.0.1 NET IP", "weft rping: -c and --silence exclude each other"),
    ("run --timeout 1 -- true", "weft run: --timeout: `1` is not a whole number from 2 to 3600"),
    ("sockets", "weft sockets: missing: <PROGRAM>... (`weft sockets --help` has examples)"),
    ("sockets --spin -1 -- true", "weft sockets: --spin: `-1` is not a whole number from 0 to 1000000"),
    ("sockets --eager --require -- true", "weft sockets: --eager and --require exclude each other"),
    ("sockets --daemon x -- true", "weft sockets: --daemon: `x`: a daemon's address is @NAME or the path of"),
    ("rping -s --silence 0 NET IP", "weft rping: --silence: `0` is not a whole number from 1 to 86400"),
    ("rping -s --no-p2p NET IP", "weft rping: -s and --no-p2p exclude each other"),
    ("rping -s -a 10.0.0.9 NET IP", "weft rping: the server has the address 10.0.0.2 of --ip"),
    ("rping -s NET --ip 10.0.0.2", "weft rping: --ip: address `10.0.0.2`: the prefix length is missing"),
    (
        "rping -s NET --ip 10.0.0.0/24",
        "weft rping: --ip: address `10.0.0.0/24`: that is the address of the net",
    ),
    ("rping -s NET --ip fd00::1/64 --mtu 1000", "weft rping: an MTU of 1000 is outside 576 (IPv6: 1280)"),
    ("rping -s NET IP --pcap /nonexistent/x", "weft rping: cannot write /nonexistent/x: No such file"),
    ("conform", "weft conform: missing: <TARGET> (`weft conform --help` has examples)"),
    ("conform 10.0.0.1 NET", "weft conform: missing: --ip <CIDR[,gw ADDR]>"),
    ("conform 10.0.0.1 IP", "weft conform: missing: --netif <SPEC>"),
    ("conform host NET IP", "weft conform: `host` is no IP address, such as 10.0.0.1"),
    ("conform fd00::1 NET IP", "weft conform: fd00::1 and 10.0.0.2 are of different IP versions"),
    ("conform 10.0.0.1 --port 0", "weft conform: --port: `0` is not a whole number from 1 to 65535"),
    ("conform 10.0.0.1 --only 5044-7 frob", "weft conform: --only frob: no check has that name"),
    ("conform --list --pcap x", "weft conform: missing: --ip <CIDR[,gw ADDR]>, --netif <SPEC>"),
    ("exs", "weft exs: a command is missing: blast and cat"),
    ("exs cat", "weft exs cat: missing: <ADDR:PORT>"),
    ("exs cat here", "weft exs cat: <ADDR:PORT>: `here` is no address with a port, as 10.0.0.1:7475 is"),
    ("exs cat -l 192.0.2.1:1", "weft exs cat: 192.0.2.1:1: the address to listen on is not an own address"),
    ("exs blast --sizes 0", "weft exs blast: --sizes: `0` is no size"),
    ("exs blast --sizes 4K..1K", "weft exs blast: --sizes: `4K..1K` begins with the larger end"),
    ("exs blast --sizes 65M", "weft exs blast: --sizes: `65M` is more than 64 MiB"),
    ("exs blast --small 17M", "weft exs blast: --small: `17M` is more than 16 MiB"),
    (
        "exs blast --sizes 32M --small max",
        "weft exs blast: --small max: 33554432 octets are more than 16 MiB",
    ),
    (
        "exs blast --sizes 64M --pending 17",
        "weft exs blast: 17 operations of 67108864 octets are more than 1 GiB",
    ),
    ("exs blast --recvs 65", "weft exs blast: --recvs: `65` is not a whole number from 1 to 64"),
    ("exs blast --type datagram", "weft exs blast: --type: there is no `datagram`"),
    ("exs blast -s 10.0.0.1:1 --sizes 1", "weft exs blast: --server and --sizes exclude each other"),
    ("exs blast NET IP", "weft exs blast: without -s and -c both ends are on host"),
    ("group", "weft group: a command is missing: server, create, repair, client, kv and status"),
    ("group client read 0 4", "weft group client read: missing: --members <ADDR:PORT[,...]>"),
    (
        "group client read --members 10.0.0.1 0 4",
        "weft group client read: --members: `10.0.0.1` is no address with a port",
    ),
    ("group server --memory 1M", "weft group server: missing: --listen <ADDR:PORT>"),
    ("stat x", "weft stat: PID: `x` is neither the number of a process nor that of a device"),
    ("stat 0", "weft stat: PID: `0` is neither"),
    ("stat 1-x", "weft stat: PID: `1-x` is neither"),
    (
        "stat qp",
        "weft stat: PID: `qp` is neither the number of a process nor that of a device, such as 4711 or 4711-0 (`weft stat` lists them)",
    ),
    (
        "stat 1 everything",
        "weft stat: WHAT: there is no `everything` (there are counters, qp, mr, cq, srq, pd, cm, listener, sockets, group, exs)",
    ),
    ("stat 1 qp --stags", "weft stat: --stags is for mr"),
    ("stat --watch 1", "weft stat: --watch needs a process"),
    ("stat 1 --watch 0", "weft stat: --watch: `0` is not a number of seconds from 0.01 to 3600"),
    ("rping -s --netif pair IP", "weft rping: pair joins two devices of one process"),
];

/// Device specs, and the line about them. WIRES stands for the forms of all wires.
const SPECS: [(&str, &str); 9] = [
    ("eth0", "--netif: device `eth0`: no such device (there are host, pair, WIRES)"),
    ("tap:", "--netif: device `tap:`: the name of the TAP device is missing"),
    (
        "tap:a-name-of-16-oct",
        "--netif: device `tap:a-name-of-16-oct`: an interface name has at most 15 octets",
    ),
    ("host:1", "--netif: device `host:1`: host has no argument"),
    ("unix:", "--netif: device `unix:`: the path of the socket is missing"),
    ("unix:/nonexistent/wire", "unix:/nonexistent/wire: No such file"),
    ("unix:/dev/null", "unix:/dev/null: nobody has listened there"),
    ("unix-listen:/nonexistent/wire", "unix-listen:/nonexistent/wire: No such file"),
    ("unix-listen:/dev/null", "unix-listen:/dev/null: Address already in use"),
];

#[test]
fn arguments_without_sense_get_one_line_and_status_2() {
    for (arguments, expected) in TABLE {
        let line =
            arguments.replace("NET", "--netif unix-listen:/nonexistent/w").replace("IP", "--ip 10.0.0.2/24");
        let run = run(&line);
        assert_eq!((run.status, run.stderr.len(), run.stdout.len()), (2, 1, 0), "{line}: {run:?}");
        assert!(run.stderr[0].starts_with(expected), "{line}: {}", run.stderr[0]);
    }
}

/// The complaint has the commands of the help, in the same order. So a new command cannot be forgotten.
#[test]
fn the_complaint_about_a_wrong_command_names_all_commands() {
    for command in ["", "bench ", "exs ", "group ", "group client "] {
        let commands = commands_of(command);
        assert!(commands.len() >= 2, "{command}: {commands:?}");
        let wrong = run(&format!("{command}no-such-command"));
        assert_eq!((wrong.status, wrong.stderr.len(), wrong.stdout.len()), (2, 1, 0), "{wrong:?}");
        let (_, named) = wrong.stderr[0].split_once("(there are ").unwrap();
        let named = named.trim_end_matches(')').replace(" and ", ", ");
        assert_eq!(named.split(", ").collect::<Vec<_>>(), commands, "{command}");
    }
}

#[test]
fn devices_without_sense_get_one_line() {
    for (spec, expected) in SPECS {
        let expected = expected.replace("WIRES", &Spec::wires("and"));
        let run = run(&format!("rping -s --timeout 1 --ip 10.0.0.1/24 --netif {spec}"));
        // A peer that may still come is no error of the arguments.
        let status = if expected.contains("nobody has listened") { 1 } else { 2 };
        assert_eq!((run.status, run.stderr.len(), run.stdout.len()), (status, 1, 0), "{spec}: {run:?}");
        assert!(run.stderr[0].starts_with(&format!("weft rping: {expected}")), "{spec}: {}", run.stderr[0]);
    }
}
