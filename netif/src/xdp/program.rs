//! The program that the kernel runs for each frame of the interface, in eBPF (RFC 9669).

use core::net::IpAddr;

/// One instruction, as the kernel reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// A rule: a frame belongs to the station if it has all of these octets at these places.
#[derive(Debug)]
struct Rule(Vec<(i16, Vec<u8>)>);

/// Returns a program that redirects the station's frames to the socket in `map` at the place of their queue. All other
/// frames, and those of a queue without a socket, go on to the kernel.
///
/// The station's frames are those to its MAC address. If that is the interface's own, only those to the station's IP
/// address are. Broadcast questions for that IP address are the station's, too. A frame can go one way only: all
/// other broadcasts go to the kernel.
pub(super) fn station(mac: [u8; 6], address: IpAddr, is_interfaces_mac: bool, map: i32) -> Vec<Instruction> {
    compile(&rules(mac, address, is_interfaces_mac), map)
}

/// Returns a program that leaves all frames to the kernel.
pub(super) fn nobody() -> Vec<Instruction> {
    end(PASS)
}

fn rules(mac: [u8; 6], address: IpAddr, is_interfaces_mac: bool) -> Vec<Rule> {
    let to_mac = (0, mac.to_vec());
    let mut own = Vec::new();
    let question = match address {
        IpAddr::V4(address) => {
            let target = [(12, ARP.to_vec()), (38, address.octets().to_vec())];
            if is_interfaces_mac {
                own.push(vec![to_mac.clone(), (12, IPV4.to_vec()), (30, address.octets().to_vec())]);
                own.push([&[to_mac][..], &target].concat());
            } else {
                own.push(vec![to_mac]);
            }
            [&[(0, vec![0xFF; 6])][..], &target].concat()
        }
        IpAddr::V6(address) => {
            let octets = address.octets().to_vec();
            if is_interfaces_mac {
                own.push(vec![to_mac, (12, IPV6.to_vec()), (38, octets.clone())]);
            } else {
                own.push(vec![to_mac]);
            }
            let group = (0, [&[0x33, 0x33, 0xFF], &octets[13..]].concat());
            vec![group, (12, IPV6.to_vec()), (20, vec![ICMPV6]), (54, vec![SOLICITATION]), (62, octets)]
        }
    };
    own.push(question);
    own.into_iter().map(Rule).collect()
}

fn compile(rules: &[Rule], map: i32) -> Vec<Instruction> {
    let mut program = vec![load(WORD, DATA, CONTEXT, 0), load(WORD, DATA_END, CONTEXT, 4)];
    // The code behind the rules needs the context again, and their loads keep it.
    for rule in rules {
        let mut body = Vec::new();
        for (at, octets) in &rule.0 {
            body.extend(compare(*at, octets));
        }
        let len = rule.0.iter().map(|(at, octets)| i32::from(*at) + length(octets)).max().unwrap_or(0);
        let mut checked = vec![
            op(ALU64 | MOV | FROM_REGISTER, [ANSWER, DATA], 0, 0),
            op(ALU64 | ADD, [ANSWER, 0], 0, len),
            // The frame is too short for this rule. The next rule may need less of it.
            op(JUMP | GREATER | FROM_REGISTER, [ANSWER, DATA_END], NEXT, 0),
        ];
        checked.append(&mut body);
        checked.push(op(JUMP, [0, 0], FOUND, 0));
        let end = checked.len();
        for (index, step) in checked.iter_mut().enumerate().filter(|(_, step)| step.offset == NEXT) {
            step.offset = distance(index, end);
        }
        program.append(&mut checked);
    }
    program.append(&mut end(PASS));
    let found = program.len();
    for (index, step) in program.iter_mut().enumerate().filter(|(_, step)| step.offset == FOUND) {
        step.offset = distance(index, found);
    }
    program.extend([
        load(WORD, SECOND, CONTEXT, 16),
        op(LOAD_MAP, [FIRST, MAP_BY_DESCRIPTOR], 0, map),
        op(0, [0, 0], 0, 0),
        // This is the answer if the map has no socket there.
        op(ALU64 | MOV, [THIRD, 0], 0, PASS),
        op(JUMP | CALL, [0, 0], 0, REDIRECT_MAP),
        op(JUMP | EXIT, [0, 0], 0, 0),
    ]);
    program
}

/// Goes to the next rule unless the frame has `octets` at `at`.
fn compare(at: i16, octets: &[u8]) -> Vec<Instruction> {
    let mut steps = Vec::new();
    let (mut at, mut rest) = (at, octets);
    while !rest.is_empty() {
        // A load has the octets in the machine's order.
        let (size, value, len) = match *rest {
            [a, b, c, d, ..] => (WORD, i32::from_ne_bytes([a, b, c, d]), 4_u8),
            [a, b, ..] => (HALF, i32::from(u16::from_ne_bytes([a, b])), 2),
            [a] => (OCTET, i32::from(a), 1),
            [] => break,
        };
        steps.push(load(size, ANSWER, DATA, at));
        steps.push(op(JUMP32 | NOT_EQUAL, [ANSWER, 0], NEXT, value));
        at += i16::from(len);
        rest = &rest[usize::from(len)..];
    }
    steps
}

fn end(answer: i32) -> Vec<Instruction> {
    vec![op(ALU64 | MOV, [ANSWER, 0], 0, answer), op(JUMP | EXIT, [0, 0], 0, 0)]
}

fn load(size: u8, into: u8, from: u8, offset: i16) -> Instruction {
    op(LOAD | size, [into, from], offset, 0)
}

fn op(code: u8, [destination, source]: [u8; 2], offset: i16, immediate: i32) -> Instruction {
    let registers =
        if cfg!(target_endian = "little") { destination | source << 4 } else { destination << 4 | source };
    Instruction { code, registers, offset, immediate }
}

/// Returns the distance from the instruction behind `index` to `target`.
fn distance(index: usize, target: usize) -> i16 {
    i16::try_from(target - index - 1).unwrap_or(0)
}

fn length(octets: &[u8]) -> i32 {
    i32::try_from(octets.len()).unwrap_or(i32::MAX)
}

// Registers: the answer and scratch, the arguments of a call, the frame.
const ANSWER: u8 = 0;
const FIRST: u8 = 1;
const CONTEXT: u8 = 1;
const SECOND: u8 = 2;
const THIRD: u8 = 3;
const DATA: u8 = 4;
const DATA_END: u8 = 5;

// Instruction codes: class, operation, and place of the second operand.
const LOAD: u8 = 0x61;
const WORD: u8 = 0x00;
const HALF: u8 = 0x08;
const OCTET: u8 = 0x10;
const LOAD_MAP: u8 = 0x18;
const ALU64: u8 = 0x07;
const JUMP: u8 = 0x05;
const JUMP32: u8 = 0x06;
const FROM_REGISTER: u8 = 0x08;
const ADD: u8 = 0x00;
const MOV: u8 = 0xB0;
const GREATER: u8 = 0x20;
const NOT_EQUAL: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;

/// BPF_PSEUDO_MAP_FD.
const MAP_BY_DESCRIPTOR: u8 = 1;
/// The helper bpf_redirect_map.
const REDIRECT_MAP: i32 = 51;
/// XDP_PASS.
const PASS: i32 = 2;

/// Jumps whose target is not known yet.
const NEXT: i16 = i16::MAX;
const FOUND: i16 = i16::MAX - 1;

const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xDD];
const ARP: [u8; 2] = [0x08, 0x06];
const ICMPV6: u8 = 58;
/// Neighbor Solicitation (RFC 4861 section 4.3).
const SOLICITATION: u8 = 135;

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a program like the kernel. Returns true if it calls the helper. The frame begins at address 0.
    fn redirects(program: &[Instruction], frame: &[u8]) -> bool {
        let mut registers = [0_u64; 11];
        let mut at = 0;
        loop {
            let step = program[at];
            at += 1;
            let (to, from) = if cfg!(target_endian = "little") {
                (usize::from(step.registers & 15), usize::from(step.registers >> 4))
            } else {
                (usize::from(step.registers >> 4), usize::from(step.registers & 15))
            };
            let immediate = u64::from(step.immediate.cast_unsigned());
            let offset = || usize::try_from(step.offset).unwrap();
            match step.code {
                0x61 | 0x69 | 0x71 if from == 1 => {
                    registers[to] = [(0, 0), (4, frame.len() as u64), (16, 3)]
                        .into_iter()
                        .find_map(|(offset, value)| (offset == step.offset).then_some(value))
                        .unwrap();
                }
                0x61 | 0x69 | 0x71 => {
                    let place = usize::try_from(registers[from]).unwrap() + offset();
                    let len = [4, 2, 1][usize::from((step.code - 0x61) / 8)];
                    let mut octets = [0; 4];
                    octets[..len].copy_from_slice(&frame[place..place + len]);
                    registers[to] = match len {
                        4 => u64::from(u32::from_ne_bytes(octets)),
                        2 => u64::from(u16::from_ne_bytes([octets[0], octets[1]])),
                        _ => u64::from(octets[0]),
                    };
                }
                0xBF => registers[to] = registers[from],
                0xB7 => registers[to] = immediate,
                0x07 => registers[to] += immediate,
                0x2D if registers[to] > registers[from] => at += offset(),
                0x2D => {}
                0x56 if registers[to] != immediate => at += offset(),
                0x56 => {}
                0x05 => at += offset(),
                0x18 => at += 1,
                0x85 => {
                    assert_eq!((immediate, registers[2], registers[3]), (51, 3, 2));
                    return true;
                }
                0x95 => {
                    assert_eq!(registers[0], 2, "XDP_PASS");
                    return false;
                }
                code => panic!("instruction {code:#x}"),
            }
        }
    }

    const OWN: [u8; 6] = [2, 0x57, 10, 0, 0, 1];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn ethernet(to: [u8; 6], kind: [u8; 2], rest: &[u8]) -> Vec<u8> {
        let frame = [&to[..], &OTHER, &kind, rest].concat();
        [&frame[..], &[0; 60][..60_usize.saturating_sub(frame.len())]].concat()
    }

    fn arp(to: [u8; 6], target: [u8; 4]) -> Vec<u8> {
        let rest = [&[0, 1, 8, 0, 6, 4, 0, 1][..], &OTHER, &[10, 0, 0, 9], &[0; 6], &target].concat();
        ethernet(to, ARP, &rest)
    }

    fn ipv4(to: [u8; 6], target: [u8; 4]) -> Vec<u8> {
        ethernet(to, IPV4, &[&[0x45; 12][..], &[10, 0, 0, 9], &target].concat())
    }

    fn ipv6(to: [u8; 6], kind: u8, target: IpAddr) -> Vec<u8> {
        let IpAddr::V6(target) = target else { panic!("IPv6") };
        let rest = [
            &[0x60, 0, 0, 0, 0, 24, ICMPV6, 255][..],
            &[1; 16],
            &target.octets(),
            &[kind, 0, 0, 0, 0, 0, 0, 0],
            &target.octets(),
        ];
        ethernet(to, IPV6, &rest.concat())
    }

    #[test]
    fn a_station_with_its_own_mac_gets_its_frames_and_questions_for_its_address() {
        let address = [10, 0, 0, 1];
        let program = station(OWN, address.into(), false, 5);
        for frame in
            [ipv4(OWN, address), ipv4(OWN, [10, 0, 0, 2]), arp(OWN, address), arp([0xFF; 6], address)]
        {
            assert!(redirects(&program, &frame), "{frame:02x?}");
        }
        let [mut mistaken, mut other] = [OWN, OWN];
        (mistaken[5], other[0]) = (2, 4);
        let passed = [
            ipv4(OTHER, address),
            ipv4(mistaken, address),
            ipv4(other, address),
            ipv4([0xFF; 6], address),
            arp([0xFF; 6], [10, 0, 0, 2]),
            arp(OTHER, address),
            arp([0xFF; 6], address)[..41].to_vec(),
            Vec::new(),
        ];
        for frame in passed {
            assert!(!redirects(&program, &frame), "{frame:02x?}");
        }
        assert!(redirects(&program, &OWN), "only the destination counts");
    }

    #[test]
    fn a_station_with_the_interfaces_mac_gets_frames_for_its_ip_address() {
        let address = [10, 0, 0, 1];
        let program = station(OWN, address.into(), true, 5);
        for frame in [ipv4(OWN, address), arp(OWN, address), arp([0xFF; 6], address)] {
            assert!(redirects(&program, &frame), "{frame:02x?}");
        }
        let kernels = [10, 0, 0, 2];
        for frame in [
            ipv4(OWN, kernels),
            arp(OWN, kernels),
            arp([0xFF; 6], kernels),
            ipv4(OTHER, address),
            OWN.to_vec(),
        ] {
            assert!(!redirects(&program, &frame), "{frame:02x?}");
        }
    }

    #[test]
    fn solicitations_for_the_address_come_and_those_for_others_of_the_group_do_not() {
        let (address, neighbor) = ("fd00::1:203".parse().unwrap(), "fd00:1::1:203".parse().unwrap());
        let group = [0x33, 0x33, 0xFF, 1, 2, 3];
        for is_interfaces_mac in [false, true] {
            let program = station(OWN, address, is_interfaces_mac, 5);
            assert!(redirects(&program, &ipv6(OWN, 136, address)));
            assert!(redirects(&program, &ipv6(group, 135, address)));
            assert!(!redirects(&program, &ipv6(group, 135, neighbor)));
            assert!(!redirects(&program, &ipv6(group, 136, address)));
            assert!(!redirects(&program, &ipv6([0x33, 0x33, 0, 0, 0, 1], 135, address)));
            assert!(!redirects(&program, &ipv6(group, 135, address)[..77]));
            assert_eq!(redirects(&program, &ipv6(OWN, 136, neighbor)), !is_interfaces_mac);
        }
        assert!(!redirects(&nobody(), &ipv6(group, 135, address)));
    }
}
