//! Gives the library the name that programs are linked with, and keeps it in memory: its threads outlive a dlclose. Hides
//! the symbols that the linker makes for sections, so that the functions of the header are the only ones.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libweft_group.so");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,start-stop-visibility=hidden");
}
