// A server and a client of node, which is made of libuv: talk.js KIND ADDRESS:PORT. The client ends with status 0 if all octets were right.
'use strict';
const net = require('net');
const crypto = require('crypto');
const [kind, [host, port]] = [process.argv[2], process.argv[3].split(':')];
const SIZES = [1, 8, 40, 41, 1000, 70000, 300000];

// Twenty messages over one connection, each compared with what comes back.
function talk(number) {
    const connection = net.connect(Number(port), host);
    let turn = 0, message = null, got = 0;
    const next = () => {
        if (turn === 20) return connection.end();
        message = crypto.randomBytes(SIZES[(number + turn++) % SIZES.length]);
        got = 0;
        connection.write(message);
    };
    connection.on('connect', next);
    connection.on('data', (octets) => {
        if (octets.compare(message, got, got + octets.length) !== 0) throw new Error(`wrong octets: ${number}, ${turn}`);
        got += octets.length;
        if (got === message.length) next();
    });
    connection.on('end', () => {
        if (turn !== 20 || got !== message.length) throw new Error(`ended early: ${number}, ${turn}`);
    });
}

if (kind === 'server') {
    net.createServer({ allowHalfOpen: true }, (connection) => connection.pipe(connection)).listen(Number(port), host);
} else {
    for (let number = 0; number < 8; number++) talk(number);
}
