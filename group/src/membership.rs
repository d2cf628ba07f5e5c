//! Who decides which hosts are members: a register that is linearizable and outlives the hosts.

pub(crate) mod record;
