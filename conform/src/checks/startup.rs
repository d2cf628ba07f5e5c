//! The Request and the Reply (RFC 5044 section 7.1).

use crate::check::{Check, Stop};
use crate::startup::{C, M, R, REPLY_KEY, Request, S};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[Check {
    name: "plain-startup",
    title: "a Request of revision 1 is answered by a Reply of revision 1, and nothing is sent before the first FPDU",
    ids: &[
        "5044-7.1.1-3",
        "5044-7.1.1-14",
        "5044-7.1.1-16",
        "5044-7.1.1-20",
        "5044-7.1.2-8",
        "5044-7.1.2-15",
        "6581-6-6",
        "6581-10-2",
    ],
    run: plain_startup,
}];

fn plain_startup(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.dial()?;
    stream.send(&Request::plain().emit());
    let all = &["5044-7.1.2-8", "6581-6-6"];
    let reply = match trial.read_reply(&mut stream) {
        Ok(reply) => reply,
        Err(missing) => return Err(trial.fail(all, &stream, "a Reply", missing)),
    };
    trial.judge(&["5044-7.1.1-3"], &stream, reply.key == *REPLY_KEY, ("the key of a Reply", &reply));
    trial.judge(all, &stream, !reply.has(R), ("a Reply with R=0", &reply));
    trial.judge(
        &["5044-7.1.1-14"],
        &stream,
        reply.flags & !(M | C | R) == 0,
        ("reserved bits of zero", &reply),
    );
    trial.judge(&["5044-7.1.1-16"], &stream, reply.revision == 1, ("revision 1", &reply));
    trial.judge(
        &["6581-10-2"],
        &stream,
        !reply.has(S) && reply.revision == 1,
        ("an unenhanced Reply", &reply),
    );
    trial.expect_quiet(&["5044-7.1.1-20", "5044-7.1.2-15"], &mut stream);
    Ok(())
}
