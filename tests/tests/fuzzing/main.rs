//! The bodies of the fuzz targets over the seeds in `fuzz/seeds`, and where these come from.

mod dialogs;
mod layers;
mod script;
mod scripts;
mod seeds;
mod stream;
mod verbs;
