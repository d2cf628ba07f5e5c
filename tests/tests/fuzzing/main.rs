//! The bodies of the fuzz targets over the seeds in `fuzz/seeds`, and the code that makes these seeds.

mod dialogs;
mod exs;
mod groups;
mod layers;
mod script;
mod scripts;
mod seeds;
mod sockets;
mod stream;
mod talk;
mod tcp;
mod verbs;
