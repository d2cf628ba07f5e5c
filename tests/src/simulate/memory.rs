//! The registered memory of one end of a lane, and the model of its content.

use weft_rnic::{Mr, Pd, Qp, Region, RegisterError, Stag};

use super::layout::{Place, RegionPlan, Role, WORD};

/// All regions of an end.
#[derive(Debug)]
pub(crate) struct Memory {
    /// `None` for a deregistered region.
    regions: Vec<Option<Mr>>,
    /// The content that the regions must have, apart from messages in flight.
    model: Vec<Vec<u8>>,
    /// STag, first tagged offset and length in octets of each region, also of deregistered ones.
    names: Vec<(Stag, u64, usize)>,
    /// Nothing is on its way any more.
    frozen: bool,
}

/// The owners of the regions of an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners<'a> {
    pub(crate) own: &'a Pd,
    pub(crate) foreign: &'a Pd,
    pub(crate) qp: &'a Qp,
    /// Another queue pair of the same domain.
    pub(crate) other: &'a Qp,
}

/// A message that may have been placed in part: no octet of it, a beginning, or all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight<'a> {
    pub(crate) places: &'a [Place],
    pub(crate) data: &'a [u8],
    /// Later messages may not be placed.
    pub(crate) is_last: bool,
}

impl Memory {
    /// Registers the regions of an end.
    pub(crate) fn new(plans: Vec<RegionPlan>, owners: &Owners<'_>) -> Result<Self, String> {
        let register = |plan: &RegionPlan| -> Result<Mr, String> {
            let Owners { own, foreign, qp, other } = owners;
            let (len, access) = (plan.octets.len(), plan.role.access());
            let shared = |pd: &Pd| {
                let region = Region::owned(len).ok_or(RegisterError::OutOfMemory)?;
                pd.register_at(region, access, plan.iova)
            };
            let registered = match plan.role {
                Role::Foreign => shared(foreign),
                Role::Bound => own.register_for(other, len, access),
                Role::Window => own.register_for(qp, len, access),
                _ => shared(own),
            };
            let mr = registered.map_err(|it| it.to_string())?;
            mr.write(0, &plan.octets).map_err(|it| it.to_string())?;
            Ok(mr)
        };
        let regions: Vec<Mr> = plans.iter().map(register).collect::<Result<_, _>>()?;
        Ok(Self {
            names: regions.iter().map(|mr| (mr.rkey(), mr.addr(), mr.len())).collect(),
            regions: regions.into_iter().map(Some).collect(),
            model: plans.into_iter().map(|plan| plan.octets).collect(),
            frozen: false,
        })
    }

    pub(crate) fn stag(&self, region: usize) -> Stag {
        self.names[region].0
    }

    pub(crate) fn iova(&self, region: usize) -> u64 {
        self.names[region].1
    }

    pub(crate) fn size(&self, region: usize) -> usize {
        self.names[region].2
    }

    /// Returns the octets of all regions.
    pub(crate) fn len(&self) -> usize {
        self.names.iter().map(|name| name.2).sum()
    }

    pub(crate) fn region(&self, region: usize) -> Option<&Mr> {
        self.regions.get(region)?.as_ref()
    }

    pub(crate) fn deregister(&mut self, region: usize) {
        self.regions[region] = None;
    }

    /// Takes a message that was placed for certain into the model, and checks that its octets are there.
    pub(crate) fn land(&mut self, places: &[Place], data: &[u8]) -> Result<(), String> {
        let mut rest = data;
        for place in places {
            let (piece, others) = rest.split_at(place.len.min(rest.len()));
            rest = others;
            let Some(mr) = self.region(place.region) else { continue };
            let mut seen = vec![0; piece.len()];
            mr.read(place.offset, &mut seen).map_err(|it| it.to_string())?;
            if let Some(at) = difference(&seen, piece) {
                return Err(format!(
                    "octet {at} of {place:?} is {:#04x} and should have become {:#04x}",
                    seen[at], piece[at]
                ));
            }
            self.model[place.region][place.offset..][..piece.len()].copy_from_slice(piece);
        }
        Ok(())
    }

    /// The application writes into its own memory.
    pub(crate) fn write(&mut self, place: &Place, octets: &[u8]) -> Result<(), String> {
        if let Some(mr) = self.region(place.region) {
            mr.write(place.offset, octets).map_err(|it| it.to_string())?;
            self.model[place.region][place.offset..][..octets.len()].copy_from_slice(octets);
        }
        Ok(())
    }

    /// Compares all memory. Messages in flight come in sequences. Of each sequence a beginning may be there, up to
    /// some octet, and no octet behind it. A word may have one of several values.
    pub(crate) fn audit(
        &self,
        sequences: &[Vec<InFlight<'_>>],
        words: &[(Place, &[u64])],
    ) -> Result<(), String> {
        let mut seen = self.contents()?;
        if seen.iter().zip(&self.model).all(|(seen, model)| seen.as_ref().is_none_or(|seen| seen == model)) {
            return Ok(());
        }
        for sequence in sequences.iter().filter(|_| !self.frozen) {
            self.settle(sequence, &mut seen)?;
        }
        for (place, values) in words {
            let Some(seen) = &mut seen[place.region] else { continue };
            let range = place.offset..place.offset + WORD;
            if !values.iter().any(|value| seen[range.clone()] == value.to_ne_bytes()) {
                return Err(format!("{place:?} is {:02x?}, which no Atomic leaves", &seen[range]));
            }
            seen[range.clone()].copy_from_slice(&self.model[place.region][range]);
        }
        for (region, (seen, model)) in seen.iter().zip(&self.model).enumerate() {
            if let Some((seen, at)) = seen.as_ref().and_then(|seen| Some((seen, difference(seen, model)?))) {
                return Err(format!(
                    "octet {at} of {} of region {region} is {:#04x} and should be {:#04x}",
                    model.len(),
                    seen[at],
                    model[at]
                ));
            }
        }
        Ok(())
    }

    /// Takes the present content as final: it may not change any more.
    pub(crate) fn freeze(&mut self) -> Result<(), String> {
        for (model, seen) in self.model.iter_mut().zip(read_all(&self.regions)?) {
            if let Some(seen) = seen {
                *model = seen;
            }
        }
        self.frozen = true;
        Ok(())
    }

    pub(crate) const fn is_frozen(&self) -> bool {
        self.frozen
    }

    fn contents(&self) -> Result<Vec<Option<Vec<u8>>>, String> {
        read_all(&self.regions)
    }

    /// Replaces the placed octets of a sequence by the model's, if they are a valid beginning.
    fn settle(&self, sequence: &[InFlight<'_>], seen: &mut [Option<Vec<u8>>]) -> Result<(), String> {
        let mut open = true;
        for message in sequence {
            let mut rest = message.data;
            for place in message.places {
                let (piece, others) = rest.split_at(place.len.min(rest.len()));
                rest = others;
                let Some(seen) = &mut seen[place.region] else { continue };
                let range = place.offset..place.offset + piece.len();
                let (now, before) = (&mut seen[range.clone()], &self.model[place.region][range]);
                let placed = if open { difference(now, piece).unwrap_or(piece.len()) } else { 0 };
                open &= placed == piece.len();
                if let Some(at) = difference(&now[placed..], &before[placed..]) {
                    let at = placed + at;
                    return Err(format!(
                        "octet {at} of {place:?} is {:#04x}: neither {:#04x} as before, nor {:#04x} in its turn",
                        now[at], before[at], piece[at]
                    ));
                }
                now.copy_from_slice(before);
            }
            open &= !message.is_last;
        }
        Ok(())
    }
}

fn read_all(regions: &[Option<Mr>]) -> Result<Vec<Option<Vec<u8>>>, String> {
    let read = |mr: &Option<Mr>| -> Result<Option<Vec<u8>>, String> {
        let Some(mr) = mr else { return Ok(None) };
        let mut octets = vec![0; mr.len()];
        mr.read(0, &mut octets).map_err(|it| it.to_string())?;
        Ok(Some(octets))
    };
    regions.iter().map(read).collect()
}

/// Returns the first place at which two runs of octets differ.
fn difference(left: &[u8], right: &[u8]) -> Option<usize> {
    if left == right { None } else { left.iter().zip(right).position(|(left, right)| left != right) }
}
