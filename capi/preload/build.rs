//! Gives the library its own SONAME: one that is loaded already under that name would be taken instead of the file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft_preload.so");
}
