//! Streams of a ULP on DDP and on RDMAP alone, over TCP on a wire in memory and one virtual clock, and over the
//! kernel's.

mod ddp_errors;
mod ddp_messages;
mod ddp_octets;
mod host;
mod line;
mod mix;
mod peer;
mod rdmap_errors;
mod rdmap_messages;
mod startup;
