//! Policies from outside: the example, what results say of them, and what is refused.

#[path = "../../examples/own_policy.rs"]
mod example;

use example::CostAgeTimes;
use mynah_lab::enclosure::Enclosure;
use mynah_lab::policy::{BuiltIn, Candidates, Own, VictimChoice};
use mynah_lab::{Document, Precondition, Simulation};
use mynah_stamp::Span;

#[test]
fn the_example_moves_less_than_greedy_collection() {
    let [greedy, own] = example::compare(60_000).unwrap();
    assert_eq!(greedy.own_policies, None);
    let said = own.own_policies.expect("they were not the drive's own");
    assert_eq!((said.name.as_str(), said.replaced), ("cost-age-times", vec!["victims".to_owned()]));
    assert_eq!(said.hash.len(), 16);
    let [greedy, own] = [greedy.waf, own.waf].map(Option::unwrap);
    assert!(own < 0.95 * greedy, "{own} and {greedy}");
}

/// Greedy collection, from outside.
struct Greedy;

impl VictimChoice for Greedy {
    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        Ok(blocks.in_turn().min_by_key(|it| it.valid).map(|it| it.block))
    }
}

#[test]
fn a_built_in_policy_from_outside_has_the_same_result() {
    let simulation = example::simulation(20_000).unwrap();
    let built_in = simulation.run().unwrap();
    let own = simulation.run_with(Own::named("greedy", "1").victims(Greedy)).unwrap();
    let summary = own.summary();
    assert!(summary.contains("policies `greedy` ("), "{summary}");
    assert!(summary.contains("): victims not the drive's own\n"), "{summary}");
    let json = own.result.to_json();
    assert!(
        matches!(Document::from_json(&json).unwrap(), Document::One(read) if *read == own.result)
    );
    let mut result = own.result;
    result.device.as_mut().expect("one drive ran").own_policies = None;
    assert_eq!(result.to_json(), built_in.result.to_json());
    let itself = simulation.run_with(BuiltIn).unwrap();
    assert_eq!(itself.result.to_json(), built_in.result.to_json());
}

#[test]
fn what_goes_with_the_drives_own_policies_alone_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |change: &dyn Fn(&mut Simulation)| {
        let mut simulation = example::simulation(100).unwrap();
        change(&mut simulation);
        let own = Own::named("cat", "1").victims(CostAgeTimes);
        simulation.run_with(own).unwrap_err().to_string()
    };
    let path = folder.path().join("file");
    let said = [
        refused(&|it| it.record = Some(path.clone())),
        refused(&|it| it.save_state = Some(path.clone())),
        refused(&|it| it.options.load_state = Some(path.clone())),
        refused(&|it| it.alone = true),
        refused(&|it| {
            it.enclosure =
                Some(Enclosure { drives: 2, uplink_bits_per_s: None, latency: Span::ZERO })
        }),
    ];
    for said in &said {
        assert!(said.starts_with("the policies `cat` are not the drive's own: "), "{said}");
    }
    assert!(!path.exists());
}

/// A block that the plane does not have.
struct Wild;

impl VictimChoice for Wild {
    fn choose(&mut self, blocks: &mut Candidates<'_>) -> Result<Option<u32>, String> {
        Ok(Some(blocks.blocks()))
    }
}

#[test]
fn a_choice_that_is_none_ends_the_run() {
    let own = || Own::named("wild", "1").victims(Wild);
    let simulation = example::simulation(20_000).unwrap();
    let said = simulation.run_with(own()).unwrap_err().to_string();
    assert!(said.starts_with("the policy `wild` chose block 64 of plane "), "{said}");
    assert!(said.ends_with(", which is not among the candidates"), "{said}");
    // While the drive is written before the run, too.
    let steady = simulation.precondition(Precondition::Steady);
    assert!(steady.run_with(own()).unwrap_err().to_string().contains("`wild` chose block 64"));
}
