//! Gives the library a SONAME of its own. If a library of the same name is loaded already, the loader takes that one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft_sockets_preload.so");
}
