# Programs that copy files, most of which fork for each connection.
cases+=(rsync git openssh)
quick+=(rsync git openssh)
for name in rsync git openssh; do eager[$name]=--eager; done
# git's programs hand the connection on by exec, and sshd has a sandbox.
judged[git]=results judged[openssh]=results

case_rsync() {
    need rsync
    files 60
    printf 'use chroot = no\n[www]\npath = %s\nread only = no\n' "$D/www" >"$D/rsyncd.conf"
    server rsync --daemon --no-detach --port "$PORT" --address "$HOST" --config "$D/rsyncd.conf"
    client rsync --archive "rsync://$HOST:$PORT/www/" "$D/copy/"
    (cd "$D/copy" && sha256sum --quiet --check "$D/sums")
    head -c 2000000 /dev/urandom >"$D/copy/new"
    client rsync --archive "$D/copy/" "rsync://$HOST:$PORT/www/"
    cmp "$D/copy/new" "$D/www/new"
}

case_git() {
    need git
    export HOME=$D GIT_CONFIG_NOSYSTEM=1
    files 40
    git config --global user.email judge@localhost
    git config --global user.name judge
    git config --global --add safe.directory '*'
    git init --quiet "$D/www"
    (cd "$D/www" && git add . && git commit --quiet --message x)
    server git daemon --port="$PORT" --listen="$HOST" --base-path="$D" --export-all "$D/www"
    client git clone --quiet "git://$HOST:$PORT/www" "$D/clone"
    (cd "$D/clone" && sha256sum --quiet --check "$D/sums")
}

# sftp, since an ordinary user may have no shell.
case_openssh() {
    local user
    user=$(id -un 2>/dev/null) || skip "this user has no name"
    need /usr/sbin/sshd sftp ssh-keygen
    files 20
    ssh-keygen -q -t ed25519 -N '' -f "$D/key"
    cp "$D/key.pub" "$D/authorized"
    cat >"$D/sshd_config" <<CONF
HostKey $D/key
AuthorizedKeysFile $D/authorized
StrictModes no
UsePAM yes
PidFile none
Subsystem sftp internal-sftp
CONF
    cat >"$D/ssh_config" <<CONF
IdentityFile $D/key
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile $D/known
BatchMode yes
CONF
    chmod 600 "$D/key"
    server /usr/sbin/sshd -D -e -f "$D/sshd_config" -o "ListenAddress=$HOST:$PORT"
    mkdir "$D/got"
    printf 'lcd %s/got\nget %s/www/*\n' "$D" "$D" >"$D/batch"
    client sftp -q -F "$D/ssh_config" -P "$PORT" -b "$D/batch" "$user@$HOST"
    (cd "$D/got" && sha256sum --quiet --check "$D/sums")
}
