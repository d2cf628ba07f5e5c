//! The files of the device below `/sys`. The kernel has none for it, so `ibv_read_sysfs_file` answers them from here.
//! For programs that open such files themselves, a folder (`WEFT_SYSFS`) is filled when the device is opened.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::abi;
use crate::device::{NAME, guid};
use crate::gid::Gids;
use crate::personality::Personality;
use crate::settings::{Network, Settings};

/// Returns the folder that stands for `/sys`: the one that the environment names, or the system's, which has no file of
/// ours.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let named = std::env::var_os("WEFT_SYSFS").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        match named.map(|folder| (folder.is_absolute() && folder.as_os_str().len() <= LONGEST, folder)) {
            None => PathBuf::from(SYSTEM),
            Some((true, folder)) => folder,
            Some((false, folder)) => {
                let folder = folder.display();
                eprintln!("weft: WEFT_SYSFS: `{folder}` is no absolute path of at most {LONGEST} octets");
                PathBuf::from(SYSTEM)
            }
        }
    })
}

/// Returns the folder of the device.
pub(crate) fn device() -> PathBuf {
    root().join(DEVICE)
}

/// Returns the folder of its half for verbs programs.
pub(crate) fn verbs_device() -> PathBuf {
    root().join(VERBS_DEVICE)
}

/// Returns the content of a file of the device, without a newline. None if the path is not the device's.
///
/// # Errors
/// If the device has no such file.
pub(crate) fn content(path: &Path, gids: impl FnOnce() -> Gids) -> Option<io::Result<String>> {
    let path = [root(), Path::new(SYSTEM)].iter().find_map(|root| path.strip_prefix(root).ok())?;
    if !path.starts_with(DEVICE) && !path.starts_with(VERBS_DEVICE) {
        return None;
    }
    let found = files(&gids()).into_iter().find(|(file, _)| Path::new(file) == path);
    Some(found.map(|(_, content)| content).ok_or_else(|| io::ErrorKind::NotFound.into()))
}

/// Fills the folder, if the environment names one. All processes of a host write the same content. A file that has it
/// already is left alone.
///
/// # Errors
/// If a file or folder cannot be written.
pub(crate) fn render(settings: &Settings, gids: &Gids) -> io::Result<()> {
    if root() == Path::new(SYSTEM) {
        return Ok(());
    }
    let interface = match settings.network {
        Network::Host(address) if address.is_unspecified() || address.is_loopback() => Some("lo"),
        _ => None,
    };
    let address =
        |name: &str| (format!("{DEVICE}/device/net/{name}/address"), "00:00:00:00:00:00".to_owned());
    for (file, content) in files(gids).into_iter().chain(interface.map(address)) {
        write(&root().join(file), &(content + "\n"))?;
    }
    Ok(())
}

/// Writes a file under another name first, so that a reader sees all of it or nothing.
fn write(path: &Path, content: &str) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|known| known == content.as_bytes()) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(OsStr::from_bytes(format!(".{}", std::process::id()).as_bytes()));
    std::fs::write(&part, content)?;
    std::fs::rename(part, path)
}

/// Returns the files by their paths below [`root`], with the kernel's names and numbers.
fn files(gids: &Gids) -> Vec<(String, String)> {
    let node_type = match Personality::of_process() {
        Personality::Iwarp => "4: RNIC",
        Personality::Roce => "1: CA",
    };
    let guid = hex(&guid().to_be_bytes());
    let of_device = [
        ("node_type", node_type),
        ("node_guid", &guid),
        ("sys_image_guid", &guid),
        ("node_desc", "Weft"),
        ("board_id", "Weft"),
        ("hca_type", "Weft"),
        ("hw_rev", "1"),
        ("fw_ver", env!("CARGO_PKG_VERSION")),
        ("device/vendor", "0x5745"),
        ("device/device", "0x0001"),
        ("device/numa_node", "-1"),
        ("ports/1/state", "4: ACTIVE"),
        ("ports/1/phys_state", "5: LinkUp"),
        ("ports/1/link_layer", "Ethernet"),
        ("ports/1/rate", "40 Gb/sec (4X QDR)"),
        ("ports/1/lid", "0x0"),
        ("ports/1/lid_mask_count", "0"),
        ("ports/1/sm_lid", "0x0"),
        ("ports/1/sm_sl", "0"),
        ("ports/1/cap_mask", "0x00000000"),
        ("ports/1/pkeys/0", "0xffff"),
    ];
    let mut files: Vec<_> =
        of_device.iter().map(|&(name, content)| (format!("{DEVICE}/{name}"), content.to_owned())).collect();
    for (index, entry) in (0..).map_while(|index| Some((index, gids.get(1, index).ok()?))) {
        let kind = if entry.kind == abi::GID_TYPE_ROCE_V2 { "RoCE v2" } else { "IB/RoCE v1" };
        files.push((format!("{DEVICE}/ports/1/gids/{index}"), hex(&entry.gid)));
        files.push((format!("{DEVICE}/ports/1/gid_attrs/types/{index}"), kind.into()));
    }
    files.push((format!("{VERBS}/abi_version"), "6".into()));
    files.push((format!("{VERBS_DEVICE}/abi_version"), "1".into()));
    files.push((format!("{VERBS_DEVICE}/ibdev"), NAME.into()));
    files
}

/// Returns groups of four digits, as the kernel writes GUIDs and GIDs.
fn hex(octets: &[u8]) -> String {
    let groups: Vec<_> = octets
        .chunks(2)
        .map(|two| two.iter().map(|octet| format!("{octet:02x}")).collect::<String>())
        .collect();
    groups.join(":")
}

const SYSTEM: &str = "/sys";
const DEVICE: &str = "class/infiniband/weft0";
const VERBS: &str = "class/infiniband_verbs";
const VERBS_DEVICE: &str = "class/infiniband_verbs/weft0";
/// C's arrays for paths have room for 256 octets.
const LONGEST: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_device_are_answered_and_others_are_not_ours() {
        let read = |path: &str| {
            content(Path::new(path), Gids::iwarp).map(|content| content.map_err(|error| error.kind()))
        };
        assert_eq!(read("/sys/class/infiniband/weft0/node_type"), Some(Ok("4: RNIC".into())));
        let gid = read("/sys/class/infiniband/weft0/ports/1/gids/0").unwrap().unwrap();
        assert!(gid.len() == 39 && gid.ends_with(":0000:0000:0000:0000:0000"), "{gid}");
        let missing = read("/sys/class/infiniband/weft0/ports/1/gids/1");
        assert_eq!(missing, Some(Err(io::ErrorKind::NotFound)));
        assert_eq!(read("/sys/class/infiniband/mlx5_0/node_type"), None);
        assert_eq!(read("/proc/cpuinfo"), None);
    }

    #[test]
    fn guids_are_written_as_the_kernel_does() {
        assert_eq!(hex(&[0, 0x2A, 0xFF, 1]), "002a:ff01");
    }
}
