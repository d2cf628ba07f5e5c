# Two hosts for tests/sockets/run --hosts: network namespaces of one machine, joined by a veth pair. Root makes them and takes them
# away. The judges themselves run in the client's, as the user nobody. They keep one capability, to start servers in the other
# namespace, and no program inherits it.

readonly NOBODY=65534 LANES=10.9.0.0/24 LANE_PORT=7176
declare -A ADDRESS=([server]=10.9.0.1 [client]=10.9.0.2)
readonly ADDRESS

# between_hosts ARGUMENTS...: makes the hosts, and runs the judges with these arguments between them. Removes the hosts in any case.
between_hosts() {
    local status=0 hosts=weft-judges-$$
    if [ "$(id -u)" != 0 ]; then echo "skipped: only root can make network namespaces" && return 0; fi
    if ! command -v ip nsenter setpriv ss >/dev/null; then echo "skipped: no iproute2 or util-linux" && return 0; fi
    if ! setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups --inh-caps=-all test -r Cargo.toml -a -x "$WEFT"; then
        echo "skipped: the user nobody cannot read this checkout" && return 0
    fi
    remove_orphans
    # shellcheck disable=SC2064 # the name of now
    trap "remove_hosts $hosts" EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    if ! make_hosts "$hosts"; then echo "skipped: this machine gives no network namespaces" && return 0; fi
    if [ -n "$cut" ]; then
        if ! can_cut "$hosts"; then echo "skipped: this kernel lets nobody end a connection (CONFIG_INET_DIAG_DESTROY)" && return 0; fi
        cut_lanes "$hosts" &
    fi
    if [ -n "$loss" ] && ! lose_packets "$hosts" 2>/dev/null; then
        echo "skipped: this kernel loses no packets on request (CONFIG_NET_CLS_BPF or CONFIG_NET_SCH_NETEM)" && return 0
    fi
    # In the background, so that a signal is heard at once. remove_hosts ends it.
    WEFT_JUDGES_HOSTS=$hosts nsenter --net="/run/netns/$hosts-client" setpriv --reuid=$NOBODY --regid=$NOBODY --clear-groups \
        --inh-caps=-all,+sys_admin --ambient-caps=-all,+sys_admin env HOME=/nonexistent "$PWD/tests/sockets/run" "$@" &
    wait $! || status=$?
    if [ -n "$cut" ]; then echo "lanes were cut $(wc -l <"/run/$hosts.cuts") times"; fi
    if [ -n "$loss" ]; then echo "$loss % of packets were lost; TCP sent $(sent_again "$hosts") segments again"; fi
    return "$status"
}

# make_hosts NAME: makes both namespaces and joins them.
make_hosts() {
    local place
    for place in server client; do ip netns add "$1-$place" || return 1; done
    ip link add lane netns "$1-server" type veth peer name lane netns "$1-client" || return 1
    for place in server client; do
        ip -n "$1-$place" addr add "${ADDRESS[$place]}/24" dev lane
        ip -n "$1-$place" link set lane up
        ip -n "$1-$place" link set lo up
    done
}

# lose_packets NAME: loses $loss of 100 packets that come to either host. A filter of classic BPF does it: it loads a number of
# chance (the word at SKF_AD_OFF + SKF_AD_RANDOM), and drops (TC_ACT_SHOT, 2) what is below the share. Else netem does. Each
# packet holds one segment of TCP, so that a loss is not one of 64 KiB.
lose_packets() {
    local place program
    program="4,32 0 0 4294963256,53 1 0 $(awk "BEGIN { printf \"%.0f\", $loss / 100 * 4294967296 }"),6 0 0 2,6 0 0 0"
    for place in server client; do
        ip -n "$1-$place" link set dev lane gso_max_segs 1 || return 1
        { tc -n "$1-$place" qdisc add dev lane clsact &&
            tc -n "$1-$place" filter add dev lane ingress protocol all bpf direct-action bytecode "$program"; } ||
            tc -n "$1-$place" qdisc add dev lane root netem loss "$loss%" || return 1
    done
}

# sent_again NAME: prints how many segments TCP sent again.
sent_again() {
    local place
    for place in server client; do
        nsenter --net="/run/netns/$1-$place" awk '/^Tcp:/ { if (head) print $column; else for (head = 1; $column != "RetransSegs"; ) column++ }' \
            column=1 /proc/net/snmp
    done | awk '{ sum += $1 } END { print sum }'
}

# remove_hosts NAME: ends what is left in both namespaces, and removes them.
remove_hosts() {
    local pids place
    if [ -n "$(jobs -p)" ]; then kill $(jobs -p) 2>/dev/null || true; fi
    for place in server client; do
        [ -e "/run/netns/$1-$place" ] || continue
        for _ in $(seq 100); do
            pids=$(ip netns pids "$1-$place")
            [ -n "$pids" ] || break
            # shellcheck disable=SC2086 # a list of numbers
            kill -TERM $pids 2>/dev/null || true
            sleep 0.05
        done
        # shellcheck disable=SC2086
        [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
        ip netns del "$1-$place" || true
    done
    rm -f "/run/$1.cuts"
}

# Removes the hosts of runs that were killed.
remove_orphans() {
    local file name pid
    for file in /run/netns/weft-judges-*-*; do
        [ -e "$file" ] || continue
        name=${file##*/} pid=${file%-*} pid=${pid##*-}
        [ -e "/proc/$pid" ] || remove_hosts "${name%-*}"
    done
}

# end_connections NAMESPACE FILTER: ends connections of TCP with a reset, and prints a line for each.
end_connections() { nsenter --net="/run/netns/$1" ss --tcp --kill --no-header state established "$2" 2>/dev/null; }

# can_cut NAME: tries whether the kernel ends a connection that the owner does not know of.
can_cut() {
    nsenter --net="/run/netns/$1-server" python3 - <<'PYTHON'
import socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
subprocess.run(["ss", "--tcp", "--kill", "state", "established"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
client.settimeout(1)
try:
    client.recv(1)
except TimeoutError:
    sys.exit(1)
except OSError:
    pass
PYTHON
}

# cut_lanes NAME: ends the lanes each second, by turns at one host and at the other.
cut_lanes() {
    local place=server
    while sleep 1; do
        end_connections "$1-$place" "( sport = :$LANE_PORT or dport = :$LANE_PORT )" >>"/run/$1.cuts" || true
        if [ $place = server ]; then place=client; else place=server; fi
    done
}
