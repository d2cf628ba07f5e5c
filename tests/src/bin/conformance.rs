//! Writes `docs/conformance.md` from the catalogue of requirements and the comments of the tests.

use std::path::Path;
use std::process::ExitCode;

use weft_tests::catalogue::Catalogue;

fn main() -> ExitCode {
    match write() {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            for fault in &faults {
                eprintln!("{fault}");
            }
            eprintln!("{} faults", faults.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the document and returns the faults of the catalogue.
fn write() -> Result<Vec<String>, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("the repository is not there")?;
    let catalogue = Catalogue::read(root)?;
    let path = root.join("docs/conformance.md");
    std::fs::write(&path, catalogue.render()).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("{}", path.display());
    Ok(catalogue.faults())
}
