//! Chooses the atomics of the simulation.

fn main() {
    println!("cargo::rustc-cfg=stepped");
}
