// The schemas of ui-api/openapi/lockstep.yaml that the page uses, by the same names. `npm run types` makes schema.ts of the
// description, before each build.
import type { components } from './schema';

type Schemas = components['schemas'];

export type Side = Schemas['Side'];
export type Pair = Schemas['Pair'];
export type Node = Schemas['Node'];
export type PairLink = Schemas['PairLink'];
export type LinkCarrier = Schemas['LinkCarrier'];
export type LinkPath = Schemas['LinkPath'];
export type LinkPathEnd = Schemas['LinkPathEnd'];
export type LinkMeasurement = Schemas['LinkMeasurement'];
export type Session = Schemas['Session'];
export type Resync = Schemas['Resync'];
export type Replica = Schemas['Replica'];
export type ReplicaState = Replica['state'];
export type Volume = Schemas['Volume'];
export type BlockFormat = Schemas['BlockFormat'];
export type VolumeCreate = Schemas['VolumeCreate'];
export type VolumeChange = Schemas['VolumeChange'];
export type VolumeAction = Schemas['VolumeAction'];
export type VolumeActionName = VolumeAction['action'];
export type Initiator = Schemas['Initiator'];
export type InitiatorCreate = Schemas['InitiatorCreate'];
export type Job = Schemas['Job'];
export type Event = Schemas['Event'];
export type Severity = Event['severity'];
export type Health = Schemas['Health'];
export type HealthStatus = Health['status'];
export type HealthProblem = Health['problems'][number];
export type Problem = Schemas['Problem'];
