# Web servers and proxies.
cases+=(nginx-1 nginx-2 nginx-reload nginx-proxy haproxy)
quick+=(nginx-1 nginx-2 nginx-proxy haproxy)
between+=(nginx-proxy)
senders[nginx-reload]=server
eager[haproxy]=--eager eager[nginx-proxy]=--eager eager[nginx-1]=--eager eager[nginx-2]=--eager eager[nginx-reload]=--eager

# nginx_conf WORKERS LOCATION: writes a configuration.
nginx_conf() {
    mkdir -p "$D/nginx"
    cat >"$D/nginx/nginx.conf" <<CONF
daemon off;
worker_processes $1;
pid $D/nginx/pid;
error_log $D/nginx/error.log;
events { worker_connections 512; }
http {
    access_log off;
    sendfile on;
    client_body_temp_path $D/nginx/body; proxy_temp_path $D/nginx/proxy; fastcgi_temp_path $D/nginx/fastcgi;
    uwsgi_temp_path $D/nginx/uwsgi; scgi_temp_path $D/nginx/scgi;
    upstream back { server 127.0.0.1:$((PORT + 1)); keepalive 8; }
    server { listen $HOST:$PORT; location / { $2 } }
}
CONF
}

start_nginx() { server nginx -e "$D/nginx/error.log" -p "$D/nginx" -c "$D/nginx/nginx.conf"; }

nginx_static() {
    need nginx wrk curl
    files 200
    nginx_conf "$1" "root $D/www;"
    start_nginx
    fetch "http://$HOST:$PORT"
    fetch "http://$HOST:$PORT" --parallel --parallel-max 8
    client wrk --threads 2 --connections 16 --duration 1s "http://$HOST:$PORT/3" | tee "$D/wrk"
    ! grep -E 'Socket errors|Non-2xx' "$D/wrk"
}

case_nginx-1() { nginx_static 1; }
case_nginx-2() { nginx_static 2; }

case_nginx-reload() {
    local load
    need nginx ab curl
    files 20
    nginx_conf 2 "root $D/www;"
    start_nginx
    client ab -q -n 3000 -c 8 "http://$HOST:$PORT/3" >"$D/ab" &
    load=$!
    for _ in 1 2 3; do
        sleep 0.2
        kill -HUP "$(cat "$D/nginx/pid")"
    done
    wait "$load"
    cat "$D/ab"
    grep -qE '^Failed requests: +0$' "$D/ab"
    fetch "http://$HOST:$PORT"
}

# Its back server stands beside it, so that it has connections of both kinds if there are two hosts.
case_nginx-proxy() {
    need nginx curl
    files 60
    nginx_conf 1 "proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection '';"
    PORT=$((PORT + 1)) back_server server python3 tests/sockets/talk.py httpd "127.0.0.1:$((PORT + 1))" "$D/www"
    start_nginx
    fetch "http://$HOST:$PORT"
    fetch "http://$HOST:$PORT" --limit-rate 20M --parallel --parallel-max 4
}

# Its back server stands beside the clients.
case_haproxy() {
    need haproxy curl
    files 60
    # Without idle-close-on-response an old worker closes connections before all is written: docs/sockets/judges.md.
    cat >"$D/haproxy.cfg" <<CONF
global
    nbthread 2
defaults
    mode http
    option idle-close-on-response
    timeout connect 5s
    timeout client 20s
    timeout server 20s
frontend front
    bind $HOST:$PORT
    default_backend back
backend back
    server one $PEER:$((PORT + 1))
CONF
    PORT=$((PORT + 1)) back_server client python3 tests/sockets/talk.py httpd "$PEER:$((PORT + 1))" "$D/www"
    server haproxy -W -f "$D/haproxy.cfg" -p "$D/haproxy.pid"
    fetch "http://$HOST:$PORT"
    kill -USR2 "${servers[-1]}"
    fetch "http://$HOST:$PORT" --parallel --parallel-max 4
    fetch "http://$HOST:$PORT"
}
