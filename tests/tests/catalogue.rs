//! Every MUST of the RFCs has a test or a reason, and the document says so.

use std::path::Path;

use weft_tests::catalogue::{Catalogue, Standing};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

#[test]
fn every_must_is_covered_or_exempt() {
    let catalogue = Catalogue::read(root()).unwrap();
    assert_eq!(catalogue.requirements.len(), 1031);
    let faults = catalogue.faults();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_document_is_up_to_date() {
    let catalogue = Catalogue::read(root()).unwrap();
    let document = std::fs::read_to_string(root().join("docs/conformance.md")).unwrap();
    let is_current = document == catalogue.render();
    assert!(is_current, "docs/conformance.md is out of date: cargo run -p weft-tests --bin conformance");
}

const LIST: &str = "id,rfc,section,level,side,requirement,testable,test_idea
1-1,1,1,MUST,both,\"one, \"\"two\"\"\",wire,
1-2,1,1,MUST,both,b,wire,
1-3,1,1,SHOULD,both,c,wire,
5043-1,5043,1,MUST,both,d,wire,
";

fn list(exempt: &str) -> Catalogue {
    Catalogue::parse(LIST, &format!("id,reason\n{exempt}")).expect("a good list")
}

#[test]
fn a_missing_must_is_a_fault_and_a_missing_should_is_not() {
    let mut catalogue = list("");
    assert_eq!(catalogue.faults().len(), 2, "{:?}", catalogue.faults());
    catalogue.add_source("a.rs", "    // Covers 1-1.\n    #[test]\n    fn shows() {\n");
    assert_eq!(catalogue.faults(), ["1-2: no test and no reason: b"]);
    assert_eq!(catalogue.requirements[0].text, "one, \"two\"");
    assert_eq!(catalogue.requirements[0].tests, [("a.rs".to_owned(), "shows".to_owned())]);
    let mut exempt = list("1-2,\"because, so\"\n");
    exempt.add_source("a.rs", "// Covers 1-1, 1-3.\n#[test]\nfn shows() {\n");
    assert!(exempt.faults().is_empty(), "{:?}", exempt.faults());
    let standings: Vec<_> = exempt.requirements.iter().map(|it| it.standing()).collect();
    assert_eq!(standings, [Standing::Covered, Standing::Exempt, Standing::Covered, Standing::Exempt]);
    assert_eq!(exempt.count("1", "MUST", Standing::Covered), 1);
    let document = exempt.render();
    assert!(document.contains("| 1-1 | MUST | one, \"two\" | `a::shows` |"), "{document}");
    assert!(document.contains("| 1-2 | MUST | b | exempt: because, so |"), "{document}");
    assert!(document.contains("| 1 | MUST | 2 | 1 | 1 | 0 |"), "{document}");
}

#[test]
fn scripts_name_requirements_below_their_titles() {
    let mut catalogue = list("");
    catalogue.add_scripts(
        "t/a.pkt",
        "== RFC 1 section 1: it holds\n// Covers 1-1, 1-2.\n+0 connect\n== RFC 1: no\n",
    );
    assert!(catalogue.faults().is_empty(), "{:?}", catalogue.faults());
    assert_eq!(catalogue.requirements[1].tests, [("t/a.pkt".to_owned(), "it holds".to_owned())]);
    assert!(catalogue.render().contains("| 1-2 | MUST | b | `a.pkt`: it holds |"), "{}", catalogue.render());
    for (script, expected) in [
        ("== RFC 1: a\n+0 connect\n// Covers 1-1.", "a.pkt:3: no title stands above"),
        ("== RFC 1: a\n// Covers 1-1", "a.pkt:2: ids separated"),
        ("== RFC 1: a\n// Covers 1-9.", "a.pkt:2: there is no requirement 1-9"),
    ] {
        let mut catalogue = list("");
        catalogue.add_scripts("a.pkt", script);
        assert!(catalogue.faults()[0].starts_with(expected), "{script}: {:?}", catalogue.faults());
    }
}

#[test]
fn comments_that_are_wrong_are_faults() {
    for (comment, expected) in [
        ("// Covers 1-9.\n#[test]\nfn shows() {", "a.rs:1: there is no requirement 1-9"),
        ("// Covers 1-1\n#[test]\nfn shows() {", "a.rs:1: ids separated"),
        ("// Covers 1-1, 1-2, 1-1, 1-2, 1-1.\n#[test]\nfn shows() {", "a.rs:1: ids separated"),
        ("// Covers 1-1.\nlet a = 1;", "a.rs:1: no test follows"),
        ("// Covers 1-1.", "a.rs:1: no test follows"),
        ("// Covers 1-1.\n// Covers 1-2.\n#[test]\nfn shows() {", "a.rs:2: ids separated"),
    ] {
        let mut catalogue = list("");
        catalogue.add_source("a.rs", comment);
        assert!(catalogue.faults()[0].starts_with(expected), "{comment}: {:?}", catalogue.faults());
    }
    assert_eq!(list("1-8,why\n").faults()[0], "exempt.csv: there is no requirement 1-8");
    let mut both = list("1-1,why\n");
    both.add_source("a.rs", "// Covers 1-1.\n#[test]\nfn shows() {");
    assert!(both.faults().contains(&"1-1: exempt, but a test covers it".to_owned()));
    assert!(Catalogue::parse("id,reason\na,b\n", "id,reason\n").is_err());
}
