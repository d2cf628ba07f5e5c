//! Boots a guest for use by hand, runs one command in it and shows its output.

use std::path::Path;
use std::time::Duration;

use crate::guest::Guest;
use crate::image::Image;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// 6.1-plain, 6.1-p2p, 6.12-plain or 6.12-p2p
    guest: String,
    /// What the guest runs [default: rping -s -P -S 65535 -a 10.0.0.1]
    #[arg(trailing_var_arg = true)]
    command: Vec<String>,
}

/// Runs until the command in the guest ends, or a user ends this process.
pub(crate) fn run(args: &Args, images: &[Image], scratch: &Path) -> Result<(), String> {
    let image = images.iter().find(|image| image.name() == args.guest).ok_or_else(|| {
        let names: Vec<String> = images.iter().map(Image::name).collect();
        format!("there is no guest {}; there are: {}", args.guest, names.join(", "))
    })?;
    let guest = Guest::boot(image, scratch)?;
    let command = if args.command.is_empty() { DEFAULT.into() } else { args.command.join(" ") };
    println!(
        "Linux {}: siw on 10.0.0.1/24 and fd00::1/64; its console is {}",
        guest.version(),
        guest.console().display()
    );
    println!("it runs: {command}");
    println!("its wire, for one process at a time: --netif unix:{} --ip 10.0.0.2/24", guest.wire().display());
    println!(
        "for example: weft rping -c -a 10.0.0.1 -C 10 -v --netif unix:{} --ip 10.0.0.2/24",
        guest.wire().display()
    );
    let job = guest.start(&command)?;
    while let Some(line) = job.next_line(Duration::MAX)? {
        println!("{line}");
    }
    println!("ended with status {}", job.wait(Duration::ZERO)?.status);
    Ok(())
}

const DEFAULT: &str = "rping -s -P -S 65535 -a 10.0.0.1";
