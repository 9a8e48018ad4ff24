package format

// AdminKind says what an administrative row is. The numbers are on disk: never renumber.
type AdminKind uint8

const (
	// AdminEphemeral is the declaration of an ephemeral queue, by its name.
	AdminEphemeral AdminKind = 1
	// AdminSwitch is an operator's switch of the whole node, by its name, under SystemTenant.
	AdminSwitch AdminKind = 2
	// AdminKey is an API key, AdminPlan the plan of a tenant, AdminStream a stream query.
	AdminKey    AdminKind = 3
	AdminPlan   AdminKind = 4
	AdminStream AdminKind = 5
	// AdminRedrive is a job that moves dead letters, by its id, under SystemTenant.
	AdminRedrive AdminKind = 6
	// AdminGroup is what a coordinator keeps of a consumer group. Only a Group command writes it, and its bounds are
	// those of groups.
	AdminGroup AdminKind = 7
	// AdminKafkaConfig is what Kafka clients configured of a topic, a group or a broker and no option of ours holds.
	AdminKafkaConfig AdminKind = 8
	// AdminKafkaUser is a user of SCRAM, by its name, under SystemTenant: names are the whole cluster's.
	AdminKafkaUser AdminKind = 9
	// AdminKafkaQuota is a quota of Kafka clients, by its entity.
	AdminKafkaQuota AdminKind = 10
	// AdminKafkaBroker is where a node of a cluster is for Kafka clients, by the node's number, under SystemTenant.
	AdminKafkaBroker AdminKind = 11
)

// AdminNode is what the cluster remembers of a node's disk, by the node's number, under SystemTenant; and its own number in raft's
// traffic, by the name "deployment"; its raft groups, of which "born-<number>" says that one has its Genesis; and the nodes that drain,
// by the name "draining".
const AdminNode AdminKind = 16

// AdminTenant is which raft group a tenant is in, by the tenant's UUID, under SystemTenant of raft group 1. It is written once and
// never changes.
const AdminTenant AdminKind = 17

// SystemTenant owns the administrative rows that are no tenant's.
var SystemTenant = Tenant{}

// Bounds of administrative rows: they are resident on every replica and travel with every base.
const (
	// MaxAdminName and MaxAdminValue bound one row, bytes.
	MaxAdminName  = 512
	MaxAdminValue = 64 << 10
	// MaxAdminRows and MaxAdminBytes bound the rows of a tenant; a row counts AdminRowBytes beside its
	// name and value.
	MaxAdminRows  = 100_000
	MaxAdminBytes = 64 << 20
	AdminRowBytes = 128
	// MaxAdminTotal bounds the rows of all tenants of a raft group, counted alike.
	MaxAdminTotal = 256 << 20
)

// Admin sets or deletes one administrative row, named by tenant, kind and name. What the value says is
// its writer's affair: the state carries it.
type Admin struct {
	Tenant Tenant
	Row    AdminKind
	Name   []byte
	Value  []byte // absent when Delete
	Delete bool
	// Guarded refuses the change (CodeGone) unless the row was last written at At; the zero place means
	// that there is none.
	Guarded bool
	At      Place
}

// Flag bits of an Admin; bit 0 is flagDefaultTenant.
const (
	adminDelete  = 1 << 2
	adminGuarded = 1 << 3
)

// AddAdmin adds an Admin.
func (b *CommandBuf) AddAdmin(v *Admin) {
	at := b.begin(KindAdmin)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.Delete, adminDelete)|bit(v.Guarded, adminGuarded), byte(v.Row))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Name)
	if !v.Delete {
		c = putBytes(c, v.Value)
	}
	if v.Guarded {
		c = putPlace(c, v.At)
	}
	b.Commands = c
	b.end(at, 1)
}

// Admin decodes the current command.
func (r *CommandReader) Admin(v *Admin) error {
	d := r.open(KindAdmin)
	flags := d.flags(flagDefaultTenant | adminDelete | adminGuarded)
	*v = Admin{
		Delete: flags&adminDelete != 0, Guarded: flags&adminGuarded != 0,
		Row: AdminKind(d.enum(255)), Tenant: d.tenant(flags), Name: d.bytes(),
	}
	if !v.Delete {
		v.Value = d.bytes()
	}
	if v.Guarded {
		v.At = d.place()
	}
	return r.done(&d)
}
