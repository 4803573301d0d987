use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};
use mynah_model::config::{
    BusCycles, CmtSharing, CollectionUnit, Dimension, Fault, Flin, HotData, KeyIndexKind, KeyTime,
    KeyTimes, MappingScheme, MappingTable, MediaOperation, NamespaceKind, Placement, VictimPolicy,
    WriteFrontiers,
};
use mynah_stamp::Span;
use proptest::prelude::*;

use super::*;

/// NV-DDR2 command and address cycles in MQSim (ONFI_Channel_NVDDR2.h).
const NV_DDR2_CYCLES: BusCycles = BusCycles {
    t_cs: Span::from_ns(20),
    t_wc: Span::from_ns(25),
    t_wb: Span::from_ns(100),
    t_rr: Span::from_ns(20),
    t_adl: Span::from_ns(70),
    t_dbsy: Span::from_ns(500),
    t_cals: Span::from_ns(15),
    t_wpst: Span::from_ns(6),
    t_wpsth: Span::from_ns(15),
};

/// A snapshot named after the test, without the expression.
macro_rules! snapshot {
    ($text:expr $(,)?) => {
        let text = $text;
        insta::assert_snapshot!(text);
    };
}

/// A small drive that everything is allowed to be set on.
const SMALL: &str = r#"schema = "mynah.drive/1"
name = "small"
over_provisioning = "20%"

[geometry]
channels = 2
chips_per_channel = 1
dies_per_chip = 2
planes_per_die = 2
blocks_per_plane = 64
pages_per_block = 32
page_size = "16KiB"

[flash]
cell = "tlc"
read = { lsb = "40us", csb = "50us", msb = "60us" }
program = "500us"
erase = "3ms"

[bus]
protocol = "nv-ddr3"
rate = "1200MT/s"

[link]
generation = 4
lanes = 4

[cache]
size = "1MiB"

[mapping]
unit = "4KiB"
"#;

fn shown(error: &DriveError) -> String {
    let mut text = String::new();
    GraphicalReportHandler::new_themed(GraphicalTheme::none())
        .with_width(90)
        .render_report(&mut text, error as &dyn Diagnostic)
        .unwrap();
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn small(overrides: &[&str]) -> Result<DriveFile, DriveError> {
    let overrides: Vec<String> = overrides.iter().map(|set| set.to_string()).collect();
    parse("small.toml", SMALL, &overrides)
}

/// The error of the small drive with one piece of text replaced.
fn edited(from: &str, to: &str) -> String {
    assert!(SMALL.contains(from), "{from}");
    shown(&parse("small.toml", &SMALL.replacen(from, to, 1), &[]).unwrap_err())
}

/// The error of the small drive with overrides.
fn set(overrides: &[&str]) -> String {
    shown(&small(overrides).unwrap_err())
}

#[test]
fn shipped_drives_load_and_say_where_every_number_comes_from() {
    assert_eq!(shipped()[0].name, DEFAULT_DRIVE);
    assert!(load(DEFAULT_KEY_VALUE_DRIVE, &[]).unwrap().config.key_value.is_some());
    for drive in shipped() {
        let loaded = match load(drive.name, &[]) {
            Ok(loaded) => loaded,
            Err(error) => panic!("{}", shown(&error)),
        };
        assert_eq!(loaded.name, drive.name, "the file is called as the drive");
        assert!(!loaded.description.is_empty());
        let unsourced: Vec<&str> = loaded.unsourced().collect();
        assert!(unsourced.is_empty(), "{}: no source for {unsourced:?}", drive.name);
    }
}

#[test]
fn every_drive_file_in_the_repository_ships() {
    let mut names: Vec<String> =
        shipped().iter().map(|drive| format!("{}.toml", drive.name)).collect();
    names.sort();
    for folder in ["drives", "drives/evidence"] {
        let folder = format!("{}/../../{folder}", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "evidence")
            .collect();
        files.sort();
        assert_eq!(files, names);
    }
}

#[test]
fn shipped_drives_are_what_their_sources_say() {
    let mqsim = load("mqsim", &[]).unwrap().config;
    assert_eq!(mqsim.geometry.raw_bytes(), 512 << 30);
    assert_eq!(mqsim.geometry.dies(), 64);
    assert_eq!(mqsim.flash.erase.as_ps(), 3_800_000_000);
    assert_eq!(mqsim.bus.cycles, NV_DDR2_CYCLES);
    assert_eq!(small(&[]).unwrap().config.bus.cycles, NV_DDR2_CYCLES);
    assert_eq!(mqsim.gc.victim, VictimPolicy::DChoices { d: 11 });
    let MappingTable::Cached(cmt) = mqsim.mapping.table else { panic!("it has a CMT") };
    assert_eq!((cmt.bytes, cmt.sharing), (2 << 20, CmtSharing::Shared));

    let table3 = load("mqsim-table3", &[]).unwrap().config;
    let MappingTable::Cached(cmt) = table3.mapping.table else { panic!("it has a CMT") };
    assert_eq!(cmt.bytes, 4 << 20);

    let pro = load("samsung-970-pro", &[]).unwrap().config;
    let user = pro.geometry.raw_bytes() as f64 * (1.0 - pro.over_provisioning);
    assert!((512.1e9..513.0e9).contains(&user), "{user}");
    assert_eq!(pro.flash.read.lsb.as_ps(), 29_760_000);
    assert_eq!(pro.cache.unwrap().bytes, 2 * 16 * 32_768);

    let full = load("enterprise-tlc", &["geometry.blocks_per_plane=2741".into()]).unwrap().config;
    let user = full.geometry.raw_bytes() as f64 * (1.0 - full.over_provisioning);
    assert!((3.84e12..3.85e12).contains(&user), "{user}");
}

#[test]
fn names_and_values_round_trip_through_a_file() {
    let faulty: Vec<String> = [
        "fault.0.kind=read-error",
        "fault.0.units=0-99",
        "fault.1.kind=slow-die",
        "fault.1.die=3",
        "fault.1.factor=2.5",
        "fault.2.kind=power-cut",
        "fault.2.at=2s",
        "namespace.0.size=1GB",
        "namespace.0.channels=[0,1,2,3]",
        "namespace.1.channels=[4]",
        "gc.idle_after=10ms",
    ]
    .map(str::to_owned)
    .into();
    for drive in shipped() {
        let mut overrides = vec![Vec::new()];
        if drive.name.starts_with("mqsim") {
            overrides.push(faulty.clone());
            overrides.last_mut().unwrap()[7] = "namespace.0.size=1GiB".into();
        }
        for overrides in overrides {
            let loaded = load(drive.name, &overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
            let text = to_toml(
                &loaded.name,
                &loaded.description,
                &loaded.config,
                &[("geometry", "a test")],
            );
            let again = match parse("written.toml", &text, &[]) {
                Ok(again) => again,
                Err(error) => panic!("{text}\n{}", shown(&error)),
            };
            assert_eq!(again.config, loaded.config, "{text}");
            assert_eq!(again.hash, loaded.hash);
            assert_eq!(again.description, loaded.description);
        }
    }
}

#[test]
fn the_hash_is_of_what_the_drive_does() {
    let plain = small(&[]).unwrap();
    assert_eq!(plain.hash.len(), 16);
    let commented = SMALL.replace("[flash]", "# Comments change nothing.\n[flash]");
    assert_eq!(parse("other.toml", &commented, &[]).unwrap().hash, plain.hash);
    assert_eq!(small(&["seed=7", "name=other", "flash.program=0.5ms"]).unwrap().hash, plain.hash);
    assert_ne!(small(&["flash.program=501us"]).unwrap().hash, plain.hash);
    assert_ne!(small(&["link.lanes=2"]).unwrap().hash, plain.hash);
}

#[test]
fn overrides_reach_every_kind_of_value() {
    let config = small(&[
        "geometry.channels=4",
        "geometry.channels = 8",
        "flash.read=75us",
        "over_provisioning=0.25",
        "allocation.order=pdwc",
        "scheduler.multi_plane=false",
        "mapping.cmt.size=64k",
        "cache.size=0",
        "link.bandwidth=1GB/s",
        "fault.0.kind=erase-error",
        "fault.0.rate=1e-3",
    ])
    .unwrap()
    .config;
    assert_eq!(config.geometry.channels, 8, "the later one wins");
    assert_eq!(config.flash.read.csb.as_ps(), 75_000_000);
    assert_eq!(config.over_provisioning, 0.25);
    let order = config.plane_order.0;
    assert_eq!(order, [Dimension::Plane, Dimension::Die, Dimension::Chip, Dimension::Channel]);
    assert!(!config.scheduler.multi_plane);
    assert!(matches!(config.mapping.table, MappingTable::Cached(t) if t.bytes == 65_536));
    assert_eq!(config.cache, None);
    assert_eq!(config.link.bytes_per_s, 1_000_000_000, "it replaces the generation");
    assert!(matches!(config.faults[..], [Fault::Media { operation: MediaOperation::Erase, .. }]));

    let mixed = small(&["flash.read.lsb=30us", "flash.program.lsb=1ms"]);
    assert!(mixed.unwrap_err().messages().any(|m| m.contains("missing")));
    assert_eq!(small(&["flash.cell=mlc"]).unwrap().config.flash.read.msb.as_ps(), 60_000_000);
    let pairs = ["kv={}".to_owned(), "allocation.placement=striped".to_owned()];
    assert_eq!(load("mqsim", &pairs).unwrap().config.mapping.table, MappingTable::Ideal);
    let ideal = load("mqsim", &["mapping.table=ideal".into()]).unwrap().config;
    assert_eq!(
        ideal.mapping.table,
        MappingTable::Ideal,
        "an override may take the effect of keys of the file"
    );
}

#[test]
fn an_override_takes_effects_of_what_stands_below_it() {
    let with = |drive: &str, overrides: &[&str]| {
        let overrides: Vec<String> = overrides.iter().map(|&set| set.to_owned()).collect();
        load(drive, &overrides).map_err(|error| shown(&error))
    };
    // All that the file says of a table, but not what is said of it above.
    assert!(with("mqsim", &["mapping.table=ideal"]).is_ok());
    let refused = with("mqsim", &["mapping.table=ideal", "mapping.cmt.size=4MiB"]).unwrap_err();
    assert!(refused.contains("`mapping.cmt.size` has no effect: the whole table"), "{refused}");
    assert!(refused.contains("--set:1"), "{refused}");
    assert!(with("mqsim", &["mapping.cmt.size=4MiB", "mapping.table=ideal"]).is_ok());
    // The unit of a file, too, but not one that stands above.
    let rewritable = with("samsung-970-pro", &["flash.rewritable=true"]).unwrap().config;
    assert_eq!(rewritable.mapping.unit_bytes, rewritable.geometry.page_bytes);
    let refused = with("samsung-970-pro", &["flash.rewritable=true", "mapping.unit=4KiB"]);
    assert!(refused.unwrap_err().contains("or use `mapping.unit = \"32KiB\"`"));
    // The time of a word line is none of a page.
    let refused = with("qlc-p4320", &["flash.rewritable=true"]).unwrap_err();
    assert!(refused.contains("`flash.one_shot` has no effect: rewritable"), "{refused}");
    // Recordings carry what earlier versions wrote of a drive.
    assert!(with("optane-p4800x", &["wear.dynamic=false"]).is_ok());
    let refused = with("optane-p4800x", &["wear.static_threshold=10"]).unwrap_err();
    assert!(refused.contains("`wear.static_threshold` has no effect: rewritable"), "{refused}");
}

#[test]
fn collection_is_as_the_file_says() {
    let gc = |overrides: &[&str]| {
        let loaded = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        loaded.config.gc
    };
    for (name, victim) in [
        ("greedy", VictimPolicy::Greedy),
        ("d-choices", VictimPolicy::DChoices { d: 10 }),
        ("random", VictimPolicy::Random),
        ("random-p", VictimPolicy::RandomP { pages: 1 }),
        ("random++", VictimPolicy::RandomPlusPlus),
        ("fifo", VictimPolicy::Fifo),
        ("cost-benefit", VictimPolicy::CostBenefit),
    ] {
        assert_eq!(gc(&[&format!("gc.victim={name}")]).victim, victim);
    }
    let three = gc(&["gc.victim=random-p", "gc.invalid_pages=3"]).victim;
    assert_eq!(three, VictimPolicy::RandomP { pages: 3 });
    let usual = gc(&[]);
    assert!(usual.preemptible && !usual.copyback && usual.paced);
    assert!(!gc(&["gc.preemptible=false"]).preemptible);
    assert!(gc(&["gc.copyback=true"]).copyback);
    assert!(!gc(&["gc.paced=false"]).paced);
    assert_eq!(usual.unit, CollectionUnit::Block);
    assert_eq!(gc(&["gc.unit=superblock"]).unit, CollectionUnit::Superblock);
    assert_eq!(usual.frontiers, WriteFrontiers::Separate);
    assert_eq!(gc(&["gc.write_frontiers=one"]).frontiers, WriteFrontiers::One);
    let apart = "gc.write_frontiers=hot-cold";
    assert_eq!(gc(&[apart]).frontiers, WriteFrontiers::HotCold(HotData::DEFAULT));
    let given = ["gc.hot.counters=160", "gc.hot.decay=10", "gc.hot.threshold=7"];
    let hot = HotData { counters: Some(160), decay: Some(10), threshold: 7 };
    assert_eq!(gc(&[&[apart], &given[..]].concat()).frontiers, WriteFrontiers::HotCold(hot));
}

#[test]
fn collection_is_paced_where_it_can_be() {
    let found = |overrides: &[&str]| {
        let gc = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e))).config.gc;
        (gc.paced, gc.start, gc.urgent)
    };
    let large = |others: &[&str]| found(&[&["geometry.blocks_per_plane=2000"], others].concat());
    let unpaced = (false, 0.05, 0.005);
    // It starts late, but two blocks before it is urgent, and leaves half of what is spare.
    assert_eq!(large(&[]), (true, 0.01, 0.005));
    assert_eq!(found(&["geometry.blocks_per_plane=250"]), (true, 0.02, 0.005));
    assert_eq!(large(&["gc.urgent=2%"]), (true, 0.04, 0.02));
    assert_eq!(large(&["gc.reserve_blocks=97"]), (true, 0.05, 0.005));
    assert_eq!(found(&["over_provisioning=12%", "gc.reserve_blocks=1"]), unpaced);
    assert_eq!(found(&["over_provisioning=13%", "gc.reserve_blocks=1"]), (true, 0.0625, 0.005));
    // What is given is kept, and decides whether there is anything to pace.
    assert_eq!(large(&["gc.start=3%"]), (true, 0.03, 0.005));
    assert_eq!(large(&["gc.start=5%", "gc.urgent=5%"]), (false, 0.05, 0.05));
    assert_eq!(found(&["gc.start=5%"]), unpaced);
    assert_eq!(found(&["gc.start=5%", "gc.paced=true"]), (true, 0.05, 0.005));
    assert_eq!(large(&["gc.paced=false"]), unpaced);
    // Where nothing makes way for the host, or nothing is collected, there is no pace.
    assert_eq!(large(&["gc.preemptible=false"]), unpaced);
    assert_eq!(found(&["mapping.kind=hybrid", "mapping.unit=16KiB"]), unpaced);
    let rewritable = |text: &str| {
        let text = SMALL.replace("erase = \"3ms\"", &format!("rewritable = true\n{text}"));
        parse("small.toml", &text.replace("unit = \"4KiB\"", ""), &[])
    };
    assert!(!rewritable("").unwrap().config.gc.paced);
    let refused = shown(&rewritable("\n[gc]\npaced = true\n").unwrap_err());
    assert!(refused.contains("`gc.paced` has no effect: rewritable memory"), "{refused}");
}

#[test]
fn a_mapping_unit_is_4_kib_unless_the_page_is_smaller() {
    let unit = |page: &str, others: &[&str]| {
        let text = SMALL.replace("unit = \"4KiB\"", "").replace("16KiB", page);
        let others: Vec<String> = others.iter().map(|&other| other.to_owned()).collect();
        let loaded =
            parse("small.toml", &text, &others).unwrap_or_else(|e| panic!("{}", shown(&e)));
        loaded.config.mapping.unit_bytes
    };
    for (page, expected) in [
        ("16KiB", 4096),
        ("4KiB", 4096),
        ("2KiB", 2048),
        ("512B", 512),
        ("12KiB", 12288),
        ("4608B", 4608),
    ] {
        assert_eq!(unit(page, &[]), expected, "{page}");
    }
    assert_eq!(unit("16KiB", &["mapping.kind=hybrid"]), 16384);
    assert_eq!(unit("16KiB", &["mapping.unit=16KiB"]), 16384);
    let rewritable = SMALL.replace("erase = \"3ms\"", "rewritable = true");
    let rewritable = parse("small.toml", &rewritable.replace("unit = \"4KiB\"", ""), &[]).unwrap();
    assert_eq!(rewritable.config.mapping.unit_bytes, 16384);
}

#[test]
fn what_two_drives_differ_in_is_said() {
    let here = small(&["geometry.blocks_per_plane=250"]).unwrap();
    let said = |overrides: &[&str]| {
        let there = small(&[&["geometry.blocks_per_plane=250"], overrides].concat()).unwrap();
        let text = to_toml(&there.name, "", &there.config, &[]);
        differences(Some(&text), &there.hash, &here.config).to_string()
    };
    assert_eq!(said(&["flash.program=450us"]), "`flash.program` was 450us and is 500us");
    assert_eq!(
        said(&["gc.victim=d-choices", "link.lanes=2", "bus.rate=800MT/s", "seed=9"]),
        "`bus.rate` was 800MT/s and is 1200MT/s; `link.bandwidth` was 3938461538B/s and is \
         7876923076B/s; `link.lanes` was 2 and is 4; `gc.victim` was d-choices and is greedy; \
         `gc.d` was 10 and is not there"
    );
    assert_eq!(
        said(&["gc.paced=false"]),
        "`gc.start` was 5% and is 2% (a default that has moved); `gc.paced` was false and is true \
         (a default that has moved)"
    );
    // That is not so where a file says something else.
    assert_eq!(said(&["gc.start=3%"]), "`gc.start` was 3% and is 2%");
    let many = said(&[
        "flash.read=1us",
        "flash.program=2us",
        "flash.erase=3us",
        "firmware.read=1us",
        "firmware.write=1us",
        "firmware.trim=1us",
        "firmware.flush=1us",
        "queues.entries=64",
        "cache.size=2MiB",
        "wear.dynamic=true",
    ]);
    assert!(many.ends_with("; and 3 more settings"), "{many}");
    // A file from before there was a setting, one that says nothing of its drive, and one that
    // says what is no drive here.
    let slow = small(&["geometry.blocks_per_plane=250", "wear.dynamic=true"]).unwrap();
    let text = to_toml("small", "", &here.config, &[]).replace("dynamic = false\n", "");
    assert_eq!(
        differences(Some(&text), &here.hash, &slow.config).to_string(),
        "`wear.dynamic` was false and is true (the file is from before there was such a setting)"
    );
    assert_eq!(differences(None, &here.hash, &slow.config), Differences::Unsaid);
    let earlier = small(&["geometry.blocks_per_plane=250", "gc.paced=false"]).unwrap();
    let found = differences(None, &earlier.hash, &here.config).to_string();
    assert_eq!(found, said(&["gc.paced=false"]));
    let unreadable = differences(Some("name = 3"), &earlier.hash, &here.config).to_string();
    assert!(unreadable.starts_with("what the file says of its drive is none here: "));
    assert_eq!(
        differences(Some(&to_toml("x", "", &here.config, &[])), "0", &here.config).to_string(),
        "all settings are alike, so the rules of the hash were others"
    );
}

#[test]
fn errors_of_superblocks() {
    let part = "[gc]\nunit = \"superblock\"\n[[namespace]]\nplanes = [0]\n[mapping]\n";
    let hybrid = "[gc]\nunit = \"superblock\"\n[mapping]\nkind = \"hybrid\"\n";
    snapshot!(
        [
            set(&["gc.unit=stripe"]),
            edited("[mapping]\n", part),
            edited("[mapping]\nunit = \"4KiB\"\n", hybrid),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_hot_and_cold_data() {
    const GC: &str = "[gc]\nwrite_frontiers = \"hot-cold\"\n";
    let with = |text: &str| edited("[mapping]\n", &format!("{GC}{text}[mapping]\n"));
    let hybrid = format!("{GC}hot = {{}}\n[mapping]\nkind = \"hybrid\"\n");
    snapshot!(
        [
            set(&["gc.write_frontiers=warm"]),
            set(&["gc.hot.threshold=3"]),
            with("hot = { counters = 15, threshold = 16 }\n"),
            with("hot = { counters = 100_000_000 }\n"),
            with("hot = { counters = 1600, decay = 99 }\n"),
            with("[scheduler]\nflin = {}\n"),
            edited("[mapping]\nunit = \"4KiB\"\n", &hybrid),
        ]
        .join("----\n")
    );
}

#[test]
fn flin_is_as_the_file_says() {
    let flin = |overrides: &[&str]| {
        let loaded = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        loaded.config.scheduler.flin
    };
    assert_eq!(flin(&["scheduler.flin={}"]), Some(FLIN));
    let whole = flin(&["scheduler.flin.divides_collection=false"]);
    assert_eq!(whole, Some(Flin { divides_collection: false, ..FLIN }));
    // Where there is nothing to divide, it has no effect.
    let kept = ["scheduler.flin.fairness=30%", "gc.preemptible=false"];
    assert_eq!(flin(&kept), Some(Flin { fairness: 0.3, ..FLIN }));
    let hybrid = ["mapping.kind=hybrid", "mapping.unit=16KiB"];
    for others in [&["gc.preemptible=false"][..], &hybrid] {
        let all = [others, &["scheduler.flin.divides_collection=false"]].concat();
        let refused = shown(&small(&all).unwrap_err());
        assert!(refused.contains("`scheduler.flin.divides_collection` has no effect"), "{refused}");
    }
}

#[test]
fn allocation_is_as_the_file_says() {
    let config = |overrides: &[&str]| {
        let loaded = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        loaded.config
    };
    assert_eq!(config(&[]).placement, Placement::Static);
    for (name, placement) in [
        ("static", Placement::Static),
        ("striped", Placement::Striped),
        ("least-loaded", Placement::LeastLoaded),
    ] {
        assert_eq!(config(&[&format!("allocation.placement={name}")]).placement, placement);
    }
}

#[test]
fn mapping_units_may_lie_across_planes() {
    let loaded = small(&["mapping.unit=32KiB"]).unwrap_or_else(|e| panic!("{}", shown(&e)));
    assert_eq!(loaded.config.mapping.unit_bytes, 32768);
    assert_eq!(loaded.config.planes_per_unit(), 2);
    loaded.config.check().unwrap();
    let text = to_toml(&loaded.name, "", &loaded.config, &[]);
    let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
    assert_eq!(again.config, loaded.config, "{text}");
}

#[test]
fn hybrid_mapping_is_as_the_file_says() {
    let config = |overrides: &[&str]| {
        let loaded = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        loaded.config
    };
    assert_eq!(config(&[]).mapping.scheme, MappingScheme::Page);
    // The file's unit is not the page; the override comes later.
    assert_eq!(config(&["mapping.kind=hybrid"]).mapping.unit_bytes, 16384);
    let hybrid = ["mapping.kind=hybrid", "mapping.unit=16KiB", "gc.preemptible=false"];
    let eight = config(&hybrid);
    assert_eq!(eight.mapping.scheme, MappingScheme::Hybrid { log_blocks: 8 });
    assert!(!eight.gc.preemptible);
    let three = config(&[&hybrid[..], &["mapping.log_blocks=3"]].concat());
    assert_eq!(three.mapping.scheme, MappingScheme::Hybrid { log_blocks: 3 });
    // What the file says otherwise has no effect beside an override that comes later.
    let over = ["mapping.cmt.size=1MiB", "gc.victim=fifo", "gc.paced=true"];
    let placed = ["allocation.placement=striped", "wear.static_threshold=9"];
    let all = [&over[..], &placed[..], &hybrid[..]].concat();
    assert_eq!(config(&all), eight);
    assert!(!eight.gc.copyback);
    assert!(config(&[&hybrid[..], &["gc.copyback=true"]].concat()).gc.copyback);
}

#[test]
fn errors_of_ethernet_links() {
    const LINK: &str = "[link]\ngeneration = 4\nlanes = 4\n";
    let with = |text: &str| edited(LINK, &format!("[link]\nprotocol = \"ethernet\"\n{text}"));
    let layer = |text: &str| with(&format!("[link.target.transport]\n{text}"));
    snapshot!(
        [
            set(&["link.mtu=1KiB"]),
            with("lanes = 4\n"),
            with("[queues]\nfetch_size = 4\n"),
            with("mtu = 1500\n"),
            with("framing = \"tcp\"\nmtu = 100\n"),
            with("framing = \"tcp\"\nrdma_reads = 4\n"),
            with("success_flag = true\n"),
            with("rate = \"401Gbit/s\"\n"),
            with("rate = \"25GB/s\"\n"),
            with("ports = 3\n"),
            with("max_transfer = 1000\n"),
            with("nic = { pipelining = \"serial\" }\n"),
            with("axi = { width_bits = 100, clock = \"500MHz\" }\n"),
            with("axi = { width_bits = 64, clock = \"500MHz\", counting = \"simplessd\", beats = 4 }\n"),
            with("target = { cores = 0 }\n"),
            with("target = { cores = 4 }\n"),
            with("[link.target.session_layer]\n"),
            with("[link.target.transport]\nin = \"1us\"\n[link.target.transport]\nin = \"2us\"\n"),
            layer("in = \"-1us\"\n"),
            layer("in = { bytes = [512, 4096], times = [\"1us\", \"2us\"] }\n"),
            layer("in = { bytes = [4096, 512], times = [\"1us\", \"2us\"] }\n"),
            layer("in = { bytes = [512], times = [\"1us\", \"2us\"] }\n"),
            layer("in = { bytes = [512], fixed = \"1us\" }\n"),
            layer("bypass = true\nin = \"1us\"\n"),
            layer("merge = true\n"),
            with("[link.target.transport]\nin = \"1us\"\n[link.target.capsule]\nmerge = true\nengines = 2\n"),
        ]
        .join("----\n")
    );
}

#[test]
fn an_ethernet_link_is_read_and_written() {
    const LINK: &str = "[link]\ngeneration = 4\nlanes = 4\n";
    let table = "{ bytes = [512, 4096, 1044480], times = [\"1us\", \"2us\", \"90us\"] }";
    let text = format!(
        "[link]\nprotocol = \"ethernet\"\nports = 2\ngap = \"4ns\"\n\
         [link.nic]\ntransmit = \"10ns\"\n\
         [link.axi]\nwidth_bits = 1024\nclock = \"500MHz\"\nboundary = 0\n\
         [link.target]\ncores = 4\n\
         [link.target.transport]\nin = {table}\nout = {{ fixed = \"1us\", per_byte = \"2ps\" }}\n\
         [link.target.capsule]\nin = \"2us\"\nmerge = true\n"
    );
    let file = parse("small.toml", &SMALL.replacen(LINK, &text, 1), &[])
        .unwrap_or_else(|error| panic!("{}", shown(&error)));
    let written = to_toml("small", "", &file.config, &[]);
    let again = parse("again.toml", &written, &[]).unwrap_or_else(|error| {
        panic!("{written}\n{}", shown(&error));
    });
    assert_eq!(again.config, file.config);
    snapshot!(
        file.show()
            .lines()
            .skip_while(|line| !line.starts_with("the way"))
            .take(30)
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    );
    // What others make moot may be, where it was put above them on purpose.
    let bypassed = ["link.target.transport.bypass=true", "link.target.capsule.bypass=true"];
    let bypassed = bypassed.map(str::to_owned);
    let file = parse("small.toml", &SMALL.replacen(LINK, &text, 1), &bypassed)
        .unwrap_or_else(|error| panic!("{}", shown(&error)));
    assert!(file.config.ethernet.unwrap().target.layers.iter().all(Option::is_none));
}

#[test]
fn errors_of_hybrid_mapping() {
    const HYBRID: &str = "[mapping]\nkind = \"hybrid\"\n";
    let with = |text: &str| edited("[mapping]\nunit = \"4KiB\"\n", &format!("{HYBRID}{text}"));
    snapshot!(
        [
            set(&["mapping.log_blocks=8"]),
            set(&["mapping.kind=fast"]),
            with("unit = \"4KiB\"\n"),
            with("log_blocks = 1\n"),
            with("log_blocks = 30\n"),
            with("table = \"cached\"\ncmt = { size = \"1MiB\" }\n"),
            with("unmapped_reads = \"allocate\"\n"),
            with("[allocation]\nplacement = \"striped\"\n"),
            with("[gc]\nvictim = \"fifo\"\nidle_after = \"1ms\"\nreserve_blocks = 4\n"),
            with("[wear]\nstatic_threshold = 50\n"),
            set(&["mapping.kind=hybrid", "mapping.unit=16KiB", "flash.one_shot=true"]),
            shown(&load("wd-sn580", &["mapping.kind=hybrid".to_owned()]).unwrap_err()),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_slc_caches() {
    let with = |changes: &[&str]| {
        let changes: Vec<String> = changes.iter().map(|it| (*it).to_owned()).collect();
        shown(&load("wd-sn580", &changes).unwrap_err())
    };
    snapshot!(
        [
            with(&["slc.program=5ms"]),
            with(&["slc.static=0.01%", "slc.dynamic=0%"]),
            with(&["slc.static=40%", "over_provisioning=1%"]),
            with(&["slc.sequential_cutoff=1KiB"]),
        ]
        .join("----\n")
    );
    // What such an error says is enough.
    load("wd-sn580", &["slc.static=40%".to_owned(), "over_provisioning=12.3%".to_owned()]).unwrap();
}

#[test]
fn wear_and_energy_are_as_the_file_says() {
    let loaded = |overrides: &[&str]| {
        let loaded = small(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        loaded.config
    };
    assert_eq!((loaded(&[]).wear, loaded(&[]).energy), (Default::default(), None));
    let worn = loaded(&[
        "wear.dynamic=true",
        "wear.static_threshold=50",
        "wear.initial_cycles=1500",
        "wear.endurance=3000",
        "wear.endurance_deviation=5%",
        "wear.retry=80us",
        "wear.retries=[{cycles=0,mean=0.0},{cycles=3000,mean=1.5}]",
        "wear.decode=[{cycles=0,time=\"1us\"},{cycles=3000,time=\"8us\"}]",
    ])
    .wear;
    assert_eq!((worn.dynamic, worn.static_threshold, worn.initial), (true, Some(50), 1500));
    assert_eq!((worn.endurance, worn.endurance_deviation), (Some(3000), 0.05));
    let reads = worn.reads.unwrap();
    assert_eq!(reads.retries, [(0, 0.0), (3000, 1.5)]);
    assert_eq!(reads.decode[1], (3000, mynah_stamp::Span::from_us(8)));
    assert_eq!(reads.retry, mynah_stamp::Span::from_us(80));
    let energy = loaded(&[
        "energy.read=2uJ",
        "energy.program=60uJ",
        "energy.erase=0.3mJ",
        "energy.channel=50mW",
        "energy.idle=1.5W",
    ])
    .energy
    .unwrap();
    assert_eq!((energy.read_nj, energy.program_nj, energy.erase_nj), (2_000, 60_000, 300_000));
    assert_eq!((energy.channel_mw, energy.idle_mw), (50, 1500));
}

#[test]
fn errors_of_wear_and_energy() {
    snapshot!(
        [
            set(&["wear.static_threshold=1"]),
            set(&["wear.endurance=0"]),
            set(&["wear.endurance_deviation=5%"]),
            set(&["wear.endurance=3000", "wear.endurance_deviation=50%"]),
            set(&["wear.endurance=3000", "wear.initial_cycles=3000"]),
            set(&["wear.retry=80us"]),
            set(&["wear.retries=[{cycles=0,mean=1.0}]"]),
            set(&["wear.retry=80us", "wear.retries=[{cycles=9,mean=0.0},{cycles=9,mean=1e9}]"]),
            set(&["wear.decode=[{cycles=9}]"]),
            set(&["energy.read=2uJ"]),
            set(&["energy.read=2", "energy.program=1nJ", "energy.erase=1nJ"]),
        ]
        .join("----\n")
    );
}

#[test]
fn injected_faults_are_part_of_the_drive() {
    let mut drive = small(&[]).unwrap();
    let before = drive.hash.clone();
    drive.inject("slow-die:die=3,factor=4").unwrap();
    assert_eq!(drive.config.faults, [Fault::SlowDie { die: 3, factor: 4.0 }]);
    assert_ne!(drive.hash, before);
    assert!(drive.show().contains("fault.0.kind"));
    let error = drive.inject("dead-die:die=4").unwrap_err();
    assert_eq!(error.message, "there is no die 4");
    assert_eq!(drive.config.faults.len(), 1);
}

#[test]
fn pcie_generations_give_exact_bandwidths() {
    let bandwidth = |generation: u32, lanes: u32| {
        let generation = format!("link.generation={generation}");
        let lanes = format!("link.lanes={lanes}");
        small(&[&generation, &lanes]).unwrap().config.link.bytes_per_s
    };
    assert_eq!(bandwidth(1, 1), 250_000_000);
    assert_eq!(bandwidth(2, 4), 2_000_000_000);
    assert_eq!(bandwidth(3, 4), 3_938_461_538);
    assert_eq!(bandwidth(4, 4), 7_876_923_076);
    assert_eq!(bandwidth(5, 4), 15_753_846_153);
}

#[test]
fn show_prints_settings_and_sources() {
    let overrides = ["link.interrupt=1us".to_owned(), "mapping.cmt.size=8MiB".to_owned()];
    snapshot!(load("mqsim-table3", &overrides).unwrap().show());
}

#[test]
fn errors_in_the_text() {
    snapshot!(
        [
            edited("channels = 2", "chanels = 2"),
            edited("[link]", "[linc]"),
            edited("cell = \"tlc\"", "cell = \"tcl\""),
            edited("rate = \"1200MT/s\"", "rate = \"1200MB/s\""),
            edited("program = \"500us\"", "program = \"500KiB\""),
            edited("csb = \"50us\"", "csd = \"50us\""),
            edited("erase = \"3ms\"", "erase = 3"),
            edited("channels = 2", "channels = -2"),
            edited("channels = 2", "channels = \"two\""),
            edited("channels = 2\n", ""),
            edited("schema = \"mynah.drive/1\"", "schema = \"mynah.drive/2\""),
            edited("name = \"small\"", "name = small"),
            edited("lanes = 4", "lanes = 4\nlanes = 8"),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_in_overrides() {
    snapshot!(
        [
            set(&["geometry.chanels=16"]),
            set(&["channels=16"]),
            set(&["geometry.channels"]),
            set(&["geometry.channels=0"]),
            set(&["geometry=16"]),
            set(&["geometry.channels.first=16"]),
            set(&["flash read=75us"]),
            set(&["flash.read=75KiB"]),
            set(&["namespace.3.size=1GiB"]),
            set(&["gc.start=5", "allocation.order=CWDD"]),
            set(&["gc.unit=3"]),
            set(&["link.protocol=true"]),
            set(&["schema=1"]),
            set(&["gc=3"]),
            set(&["namespace=1GiB"]),
            set(&["namespace.0.channels=3"]),
            set(&["wear.retries=[1,2"]),
            set(&["wear.decode=1us"]),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_impossible_drives() {
    snapshot!(
        [
            edited("page_size = \"16KiB\"", "page_size = \"10000B\""),
            edited("planes_per_die = 2", "planes_per_die = 16"),
            edited("chips_per_channel = 1", "chips_per_channel = 33"),
            // 40 PB.
            set(&["geometry.channels=1024", "geometry.blocks_per_plane=18626451"]),
            set(&["geometry.blocks_per_plane=5000000"]),
            set(&["geometry.channels=4294967295"]),
            set(&["geometry.blocks_per_plane=4294967295", "geometry.pages_per_block=4294967295"]),
            set(&["mapping.unit=64KiB"]),
            set(&["mapping.unit=32KiB", "scheduler.multi_plane=false"]),
            set(&["mapping.unit=32KiB", "namespace.0.planes=[1]"]),
            set(&["mapping.unit=3KiB"]),
            set(&["bus.rate=1800MT/s"]),
            set(&["bus.protocol=nv-ddr2"]),
            set(&["bus.rounding=truncated-ns"]),
            set(&["bus.transfer_spare=true"]),
            set(&["link.lanes=3", "link.generation=6"]),
            edited("generation = 4", "generation = 4\nbandwidth = \"4GB/s\""),
            edited("generation = 4\n", ""),
            set(&["queues.entries=1", "queues.fetch_size=0"]),
            set(&["cache.size=64KiB"]),
            set(&["cache.high=50%"]),
            set(&["cache.size=1MiB", "cache.dram.banks=4"]),
            set(&["cache.mode=read", "cache.power_loss_protection=true"]),
            set(&["cache.mode=all", "cache.sharing=per-queue"]),
            set(&["cache.sharing=per-namespace"]),
            set(&["namespace=[{cache=\"both\"}]"]),
            set(&["cache.size=0", "namespace=[{cache=\"off\"}]"]),
            set(&["mapping.table=cached"]),
            set(&["mapping.table=ideal", "mapping.cmt.size=1MiB"]),
            set(&["mapping.cmt.size=4KiB", "mapping.cmt.granularity=page"]),
            set(&["firmware.cores=4"]),
            set(&["gc.d=4"]),
            set(&["gc.victim=fifo", "gc.d=4", "gc.invalid_pages=2"]),
            set(&["gc.victim=random-p", "gc.invalid_pages=0"]),
            set(&["gc.victim=lru"]),
            set(&["gc.preemptible=false", "gc.paced=true"]),
            set(&["gc.preemptible=false", "scheduler.suspend_erase.latency=20us"]),
            set(&["gc.urgent=10%"]),
            set(&["gc.idle_target=10%"]),
            set(&["flash.erase=75s"]),
            edited("cell = \"tlc\"", "cell = \"mlc\""),
            set(&["flash.cell=mlc", "flash.read.csb=3us"]),
            set(&["flash.read.msb=0s", "flash.program=0"]),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_drives_that_are_too_full() {
    snapshot!(
        [
            set(&["over_provisioning=3%"]),
            set(&["over_provisioning=8%"]),
            set(&["gc.start=20%"]),
            set(&["gc.reserve_blocks=60"]),
            set(&["over_provisioning=0", "seed=1"]),
            set(&["namespace.0.size=300MiB"]),
            set(&["namespace.0.size=200MiB", "namespace.1.channels=[1, 1, 2]"]),
            set(&["namespace.0.size=1000B"]),
            set(&[
                "namespace.0.channels=[1]",
                "namespace.0.size=107372544B",
                "namespace.1.channels=[0,1]"
            ]),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_faults_and_sources() {
    snapshot!(
        [
            set(&["fault.0.kind=slow-dye"]),
            set(&["fault.0.kind=slow-die", "fault.0.die=3"]),
            set(&["fault.0.kind=slow-die", "fault.0.die=4", "fault.0.factor=2"]),
            set(&["fault.0.kind=read-error", "fault.0.units=0-9", "fault.0.namespace=2"]),
            set(&["fault.0.kind=dead-die", "fault.0.die=1", "fault.0.at=1KiB"]),
            edited("[mapping]", "[sources]\n\"flash.raed\" = \"a guess\"\nbus = \"\"\n\n[mapping]"),
        ]
        .join("----\n")
    );
}

/// The small drive as one key-value namespace.
fn pairs(overrides: &[&str]) -> Result<DriveFile, DriveError> {
    small(&[&["kv={}", "allocation.placement=striped"], overrides].concat())
}

#[test]
fn key_value_namespaces_are_as_the_file_says() {
    let read = |overrides: &[&str]| {
        let loaded = pairs(overrides).unwrap_or_else(|e| panic!("{}", shown(&e)));
        let text = to_toml(&loaded.name, "", &loaded.config, &[]);
        let again = parse("written.toml", &text, &[]).unwrap_or_else(|e| panic!("{}", shown(&e)));
        assert_eq!(again.config, loaded.config, "{text}");
        assert_eq!(again.hash, loaded.hash, "{text}");
        let kind = loaded.config.namespaces[0].kind;
        assert_eq!(kind, NamespaceKind::Pairs);
        loaded.config.key_value.unwrap()
    };
    // What a drive has that says nothing is what drives get that are given such a namespace.
    let usual = read(&[]);
    assert_eq!(usual, default_key_value(&small(&[]).unwrap().config));
    assert_eq!((usual.managers, usual.times.clone()), (8, KeyTimes::all(Span::from_us(3))));
    assert_eq!(usual.index.dram_bytes, Some((256 << 20) / 1000 / 16384 * 16384));
    let own = small(&["namespace.0.kind=kv", "allocation.placement=striped"]).unwrap().config;
    assert_eq!(own.key_value, Some(usual));

    let times = read(&[
        "kv.managers=1",
        "kv.time.store=4.4us",
        "kv.time.retrieve=[[\"99%\", \"4.2us\"], [0.01, \"64.2us\"]]",
        "kv.time.exist={fixed = [[0.5, \"1us\"], [0.5, \"3us\"]], per_kib = \"0.5us\"}",
    ])
    .times;
    let ns = Span::from_ns;
    assert_eq!(times.update, KeyTime::constant(ns(4400)), "as a new key");
    assert_eq!(times.retrieve.fixed, [(0.99, ns(4200)), (0.01, ns(64_200))]);
    assert_eq!(times.exist.per_kib, ns(500));

    let keys = read(&["kv.key_max=8", "kv.value_max=32MiB", "kv.header=0"]);
    assert_eq!((keys.key_max, keys.key_inline, keys.value_max), (8, 8, 32 << 20));
    assert!(!read(&["kv.key_fetch=overlaps"]).key_fetch_holds);
    assert_eq!(read(&["kv.index.dram=all"]).index.dram_bytes, None);
    let hash = |set: &[&str]| read(&[&["kv.index.kind=hash"], set].concat()).index.kind;
    let pages = |pages| KeyIndexKind::Hash { pages };
    assert_eq!(hash(&[]), pages((256 << 20) / 4096 / 1024));
    assert_eq!(hash(&["kv.index.keys=5000"]), pages(5));
    assert_eq!(hash(&["kv.index.pages=77"]), pages(77));
    let lsm =
        |set: &[&str]| read(&[&["kv.index.kind=lsm", "over_provisioning=40%"], set].concat()).index;
    let usual = KeyIndexKind::Lsm { memtable_bytes: 1 << 20, fanout: 10, pinned_levels: 0 };
    assert_eq!((lsm(&[]).kind, lsm(&[]).filter_bits), (usual, 10));
    let own = ["kv.index.memtable=64KiB", "kv.index.fanout=4", "kv.index.pinned=2"];
    let kind = KeyIndexKind::Lsm { memtable_bytes: 65_536, fanout: 4, pinned_levels: 2 };
    assert_eq!(lsm(&own).kind, kind);
    let index = read(&["kv.index.filter=8", "kv.index.signature=32"]).index;
    assert_eq!((index.filter_bits, index.signature_bits), (8, 32));
}

#[test]
fn errors_of_key_value_namespaces() {
    let set = |overrides: &[&str]| shown(&pairs(overrides).unwrap_err());
    let section = |text: &str| {
        let text = SMALL.replace("[mapping]\n", &format!("{text}\n[mapping]\n"));
        shown(&parse("small.toml", &text, &[]).unwrap_err())
    };
    let rewritable = SMALL.replace("erase = \"3ms\"", "rewritable = true");
    let rewritable = rewritable.replace("unit = \"4KiB\"\n", "");
    let placed = "[allocation]\nplacement = \"striped\"\n";
    snapshot!(
        [
            section("[kv]\nmanagers = 8\n"),
            section("[allocation]\nplacement = \"static\"\n[[namespace]]\nkind = \"kv\"\n"),
            section(&format!("{placed}[kv]\n[[namespace]]\nsize = \"64MiB\"\n")),
            section(&format!("{placed}[kv]\nkey_max = 16\nkey_fetch = \"overlaps\"\n")),
            section(&format!("{placed}[kv]\nkey_max = 8\nkey_inline = 12\n")),
            section(&format!("{placed}[kv.index]\npages = 12\n")),
            section(&format!("{placed}[kv.index]\nfanout = 4\nmemtable = \"1MiB\"\npinned = 1\n")),
            section(&format!("{placed}[kv.index]\nkind = \"lsm\"\nsignature = 8\npages = 1\n")),
            set(&[
                "kv.index.kind=lsm",
                "kv.index.fanout=1",
                "kv.index.memtable=1",
                "kv.index.filter=65"
            ]),
            section(&format!("{placed}[kv]\n[mapping.cmt]\nsize = \"64KiB\"\n")),
            shown(&parse("small.toml", &(rewritable + "[kv]\n"), &[]).unwrap_err()),
            set(&["mapping.kind=hybrid", "mapping.unit=16KiB"]),
            set(&["kv.managers=65", "kv.value_max=33MiB", "kv.key_max=0", "kv.header=1MiB"]),
            set(&["kv.index.dram=16KiB", "kv.index.entry=4", "kv.index.keys=1000000"]),
            set(&["kv.index.dram=some"]),
            set(&["kv.index.kind=btree"]),
            set(&["kv.time.read=3us"]),
            set(&["kv.time.store=[[0.9, \"4us\"], [0.2, \"9us\"]]"]),
            set(&["kv.time.store.per_kib=1us"]),
            set(&["kv.time.store=fast"]),
            set(&["kv.time.store=20s"]),
            set(&["namespace.0.kind=key-value"]),
        ]
        .join("----\n")
    );
}

#[test]
fn errors_of_names() {
    let named = |name: &str| shown(&load(name, &[]).unwrap_err());
    snapshot!([named("mqsm"), named("floppy"), named("no/such/drive.toml")].join("----\n"));
}

#[test]
fn the_schema_accepts_shipped_drives_and_refuses_others() {
    let schema = json_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let json = |text: &str| -> serde_json::Value { toml::from_str(text).unwrap() };
    for drive in shipped() {
        let errors: Vec<String> = validator
            .iter_errors(&json(drive.text))
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}: {errors:?}", drive.name);
    }
    assert!(validator.is_valid(&json(SMALL)));
    for (from, to) in [
        ("channels = 2", "chanels = 2"),
        ("cell = \"tlc\"", "cell = \"tcl\""),
        ("program = \"500us\"", "program = \"500KiB\""),
        ("rate = \"1200MT/s\"", "rate = 1200"),
        ("page_size = \"16KiB\"", "page_size = \"16us\""),
        ("cell = \"tlc\"", ""),
    ] {
        assert!(!validator.is_valid(&json(&SMALL.replacen(from, to, 1))), "{to}");
    }
}

/// `MYNAH_UPDATE_DOCS=1 cargo test -p mynah-lab` writes it.
#[test]
fn the_schema_in_the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/drive.schema.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&json_schema()).unwrap());
    if std::env::var_os("MYNAH_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).unwrap();
        std::fs::write(path, &text).unwrap();
    }
    let current = std::fs::read_to_string(path).unwrap_or_default();
    assert!(current == text, "docs/drive.schema.json is old: MYNAH_UPDATE_DOCS=1 writes it");
}

proptest! {
    #[test]
    fn no_override_panics(
        key in "(geometry|flash|bus|link|gc|cache|mapping|namespace|fault)\\.(channels|blocks_per_plane|pages_per_block|page_size|read|rate|lanes|start|d|size|unit|0\\.size|0\\.kind|0)|over_provisioning|\\PC*",
        value in "[0-9]{1,12}(KiB|us|%|MT/s)?|[a-z]{1,8}|\\PC*",
    ) {
        match small(&[&format!("{key}={value}")]) {
            Ok(drive) => { drive.show(); }
            Err(error) => { shown(&error); }
        }
    }

    #[test]
    fn no_text_panics(at in 0..SMALL.len(), junk in "\\PC{0,8}|[\\[\\]=\".\n]{1,3}") {
        let text = format!("{}{junk}{}", &SMALL[..at], &SMALL[at..]);
        if let Err(error) = parse("small.toml", &text, &[]) {
            shown(&error);
        }
    }
}

#[test]
fn what_the_model_cannot_build_is_said_in_the_words_of_the_file() {
    let set = ["mapping.table=cached", "mapping.cmt.size=1KiB"].map(String::from);
    let error = super::load("mqsim", &set).unwrap_err();
    let messages: Vec<_> = error.messages().collect();
    assert_eq!(messages, ["`mapping.cmt.size`: 1024 is less than one flash page (8192)"]);
}

/// Values beside `value`, which is written as in TOML, whatever kind it is.
fn beside(value: &str, names: &[String]) -> Vec<String> {
    if let Ok(value) = value.parse::<bool>() {
        return vec![(!value).to_string()];
    }
    if let Ok(value) = value.parse::<u64>() {
        let all = [value + 1, value * 2, value / 2, value.saturating_sub(1), 0, 1, 2, 7];
        return all.map(|value| value.to_string()).into();
    }
    match value.chars().next() {
        Some('[') => return ["[]", "[0]", "[1]", "[0, 1]"].map(str::to_owned).into(),
        Some('{') => return vec!["99us".to_owned()],
        _ => {}
    }
    let text = value.trim_matches('"');
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    match number.parse::<f64>() {
        Ok(number) => {
            let all = [number * 2.0, number / 2.0, number + 1.0, number * 0.875, 0.0, 25.0];
            all.map(|number| format!("{number}{unit}")).into()
        }
        Err(_) => names.to_vec(),
    }
}

/// Every name that the schema has for a value.
fn names_of_values(schema: &serde_json::Value, names: &mut Vec<String>) {
    match schema {
        serde_json::Value::Object(fields) => {
            names.extend(fields.get("const").and_then(|it| it.as_str()).map(str::to_owned));
            let choices = fields.get("enum").and_then(|it| it.as_array());
            let choices = choices.into_iter().flatten().filter_map(|it| it.as_str());
            names.extend(choices.map(str::to_owned));
            fields.values().for_each(|value| names_of_values(value, names));
        }
        serde_json::Value::Array(all) => all.iter().for_each(|it| names_of_values(it, names)),
        _ => {}
    }
}

#[test]
fn the_hash_follows_every_setting() {
    let mut names = Vec::new();
    names_of_values(&json_schema(), &mut names);
    names.sort();
    names.dedup();
    let others = ["order CWDP", "CWDP", "PDWC", "PWDC", "1-2", "off", "7us"];
    names.extend(others.map(str::to_owned));
    let cached = ["mapping.table=cached", "mapping.cmt.size=64KiB"];
    let bases: [&[&str]; 10] = [
        &[
            "geometry.page_spare=1KiB",
            "bus.rate=800MT/s",
            "cache.write_back=lru",
            "cache.mode=both",
            "cache.dram.rows=open",
            cached[0],
            cached[1],
            "gc.victim=d-choices",
            "gc.write_frontiers=hot-cold",
            "gc.hot.counters=1024",
            "gc.hot.decay=4096",
            "gc.idle_after=1ms",
            "gc.unit=superblock",
            "queues.arbitration=weighted",
            "firmware.read=1us",
            "scheduler.suspend_program.latency=5us",
            "scheduler.suspend_erase.latency=5us",
            "scheduler.suspend_erase.for_writes=1ms",
            "scheduler.write_deadline=1ms",
            "wear.endurance=3000",
            "wear.static_threshold=10",
        ],
        &[
            "gc.victim=random-p",
            "scheduler.flin.epoch=10ms",
            "gc.preemptible=true",
            "energy={read=\"1uJ\",program=\"2uJ\",erase=\"3uJ\",channel=\"4mW\",idle=\"5W\"}",
            "namespace.0.size=32MiB",
            "namespace.0.channels=[0]",
            "namespace.1.cache=off",
            "fault.0.kind=slow-die",
            "fault.0.die=1",
            "fault.0.factor=2",
        ],
        &["mapping.kind=hybrid", "mapping.unit=16KiB", "cache.size=0B"],
        &["link={protocol = \"sata\", generation = 3}"],
        &[
            "link={protocol = \"ethernet\"}",
            "link.nic.receive=20ns",
            "link.nic.pipelining=serial",
            "link.axi={width_bits = 512, clock = \"1GHz\"}",
            "link.target={cores = 2, receive_buffers = 8, data_buffers = 4}",
            "link.target.transport={in = \"1us\"}",
            "link.target.capsule={in = \"1us\", merge = true}",
            "link.target.block_layer={out = {fixed = \"1us\", per_byte = \"1ns\"}, engines = 2}",
        ],
        &[
            "link={protocol = \"ethernet\", framing = \"tcp\"}",
            "link.axi={width_bits = 64, clock = \"250MHz\", counting = \"simplessd\"}",
        ],
        &[
            "kv={}",
            "allocation.placement=striped",
            "kv.time.retrieve=[[0.99, \"4.2us\"], [0.01, \"64.2us\"]]",
            "kv.time.store={fixed = \"7.2us\", per_kib = \"0.7us\"}",
            "kv.index.keys=1000",
        ],
        &[
            "kv={}",
            "allocation.placement=striped",
            "kv.index.kind=lsm",
            "kv.index.memtable=64KiB",
            "over_provisioning=40%",
        ],
        &[
            "namespace.0.kind=kv",
            "namespace.0.size=64MiB",
            "namespace.1.channels=[1]",
            "allocation.placement=least-loaded",
            "kv.index.kind=hash",
            "kv.index.dram=all",
        ],
        &[
            "placement={handles = 4, isolation = \"persistent\", victims = \"handle\"}",
            "geometry.blocks_per_plane=1024",
            "gc.least_invalid=1%",
            "namespace.0.handles=[2, 0]",
        ],
    ];
    let mut drives: std::collections::BTreeMap<String, Config> = Default::default();
    let mut changed = std::collections::BTreeMap::<String, bool>::new();
    for base in bases {
        let file = small(base).unwrap_or_else(|error| panic!("{}", shown(&error)));
        let seedless = |config: &Config| Config { seed: 0, ..config.clone() };
        let mut look = |overrides: &[&str]| {
            let Ok(other) = small(overrides) else { return false };
            let config = seedless(&other.config);
            let known = drives.entry(other.hash.clone()).or_insert_with(|| config.clone());
            assert_eq!(known, &config, "one hash for two: {overrides:?}");
            let same = config == seedless(&file.config);
            assert_eq!(same, other.hash == file.hash, "{overrides:?}");
            !same
        };
        look(base);
        for Sourced { path, value, .. } in &file.settings {
            let seen = changed.entry(path.clone()).or_default();
            for value in beside(value, &names) {
                let assignment = format!("{path}={value}");
                *seen |= look(&[base, &[&*assignment]].concat());
            }
        }
    }
    let unchanged: Vec<_> = changed.iter().filter(|(_, changed)| !**changed).collect();
    // The protocol is what its `bus.cycles` are; other kinds of faults have other keys.
    let expected = ["bus.protocol", "fault.0.kind", "seed"];
    assert_eq!(unchanged.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected);
    assert!(drives.len() > 300, "{}", drives.len());
}

#[test]
fn a_drive_keeps_its_hash() {
    // Saved states and stores of bytes are bound to it. A key that is added must leave it as it
    // is, which it does if the key has a default.
    let hashes: Vec<String> = shipped()
        .iter()
        .map(|drive| format!("{} {}", load(drive.name, &[]).unwrap().hash, drive.name))
        .collect();
    snapshot!(hashes.join("\n"));
    // What is said although it is the default changes nothing.
    let said = ["gc.unit=block", "gc.copyback=false", "bus.width_bits=8", "wear.dynamic=false"];
    for said in said {
        assert_eq!(small(&[said]).unwrap().hash, small(&[]).unwrap().hash, "{said}");
    }
    // Two namespaces of which nothing is said are not three.
    let namespaces = |count: usize| {
        let all: Vec<String> = (0..count).map(|at| format!("namespace.{at}.channels=[]")).collect();
        small(&all.iter().map(String::as_str).collect::<Vec<_>>()).unwrap().hash
    };
    assert!(namespaces(2) != namespaces(3) && namespaces(1) == small(&[]).unwrap().hash);
}
