# Programs that move octets and measure it.
cases+=(http iperf3-1 iperf3-2 iperf3-4 iperf3-8 sockperf qperf)
quick+=(http iperf3-2 sockperf qperf)
between+=(iperf3-2)
for name in http qperf sockperf; do eager[$name]=--eager; done
# A connection has one request, whose octets come before the two ends have been brought together.
senders[http]=server

case_http() {
    need curl
    # Shorter files would fit into the buffers of TCP, and be over before the two ends have been brought together.
    files 5 20000000
    server python3 -m http.server "$PORT" --bind "$HOST" --directory "$D/www"
    fetch "http://$HOST:$PORT"
}

case_iperf3-1() { iperf3_streams 1; }
case_iperf3-2() { iperf3_streams 2; }
case_iperf3-4() { iperf3_streams 4; }
case_iperf3-8() { iperf3_streams 8; }

iperf3_streams() {
    need iperf3
    server iperf3 --server --forceflush --port "$PORT" --bind "$HOST"
    client iperf3 --client "$HOST" --port "$PORT" --bytes 48M --parallel "$1"
    # It serves one client at a time, and hears of the end of a client a while behind the client itself.
    for _ in {1..100}; do
        if grep -q 'test #2' "$D/server.log"; then break; fi
        sleep 0.05
    done
    client iperf3 --client "$HOST" --port "$PORT" --bytes 16M --parallel "$1" --reverse --length 1000
}

case_sockperf() {
    need sockperf
    server sockperf server --tcp --ip "$HOST" --port "$PORT"
    # Without a bound on its rate it runs out of numbers for its messages when a round trip is very short.
    client sockperf ping-pong --tcp --ip "$HOST" --port "$PORT" --time 1 --mps 100000 --data-integrity --msg-size 100
}

case_qperf() {
    need qperf
    server qperf --listen_port "$PORT"
    client qperf "$HOST" --listen_port "$PORT" --time 1 tcp_lat tcp_bw
}
