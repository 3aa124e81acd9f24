/*
 * The protocol of deliveries and of the changes that they race with. docs/model/README.md says what is
 * modelled, what is left out, and how each part maps to the SQL.
 *
 * One delivery goes to the conversation D and was made from a message of the conversation S. Around it: a
 * writer of facts, an agent that proposes, two workers that send, a person, and time. Nothing is bounded but the
 * retries: facts change, leases run out and processes crash as often as they like.
 *
 * How transactions at READ COMMITTED are drawn:
 *   - one step for each lock, in the order of the protocol; a step that cannot be granted waits;
 *   - the check is a later step. It is a command of its own, so its snapshot is what is committed by then;
 *   - the commit is one step: all writes become visible, and all locks are let go;
 *   - a transaction that takes one lock only, and looks at nothing but the row that it locks, is one step:
 *     nobody can tell its parts apart;
 *   - a crash lets go of the locks and leaves no writes. It may follow each lock and each other step. A crash
 *     while waiting is not drawn apart: it leaves what a crash right after the lock before leaves. So a
 *     deadlock is never hidden by the possibility that somebody crashes.
 *
 * Each switch takes one guard away. check.sh expects every one of them to be found out.
 *   CHECK_IN_LOCK_SNAPSHOT      the check reads the snapshot that the lock command was started with
 *   LOCKS_IN_ANOTHER_ORDER      a release locks the delivery first, then the revisions
 *   SOURCE_NOT_LOCKED           a release does not lock the revision of the source's conversation
 *   RELEASE_WITHOUT_FENCE       a release asks that the delivery is claimed, and not by whom
 *   SETTLE_WITHOUT_FENCE        the same for a person who settles
 *   APPROVAL_NOT_BOUND          an approval stays good when the audience that it was given for moves
 *   SOURCES_NOT_ASKED_AGAIN     a release trusts the verdict of the proposal about the sources
 *   RECONCILING_CLAIMED_AGAIN   what may have been sent can be claimed again
 * LIVE builds the model for the liveness property `ends`, see `calm`.
 *
 * The whole has too many states to be gone through, so it is cut in two ways, which together have every pair of processes:
 *   NO_PERSON                   two workers, and nobody who approves, settles or discards
 *   ONE_WORKER                  one worker, and the person; with APPROVAL the delivery needs an approval
 */

/* ---- The delivery's states: the table of transitions that a trigger enforces. ---- */

#define PROPOSED    0   /* no row yet */
#define WAITING     1   /* for an approval */
#define SCHEDULED   2   /* until a moment: a wished one, or a retry */
#define CLEARED     3
#define CLAIMED     4
#define RELEASED    5
#define RECONCILING 6   /* released, and not acknowledged in time: it may have been sent */
#define HELD        7
#define DELIVERED   8
#define FAILED      9
#define DEAD        10
#define DISCARDED   11

#define is(a, b) (state == a && to == b)
#ifdef RECONCILING_CLAIMED_AGAIN
#define CLAIMED_AGAIN is(RECONCILING, CLAIMED)
#else
#define CLAIMED_AGAIN false
#endif
#define PERMITTED ( \
  is(PROPOSED, CLEARED) || is(PROPOSED, HELD) || is(PROPOSED, WAITING) || is(PROPOSED, SCHEDULED) || \
  is(WAITING, CLEARED) || is(WAITING, SCHEDULED) || is(WAITING, HELD) || is(WAITING, DISCARDED) || \
  is(SCHEDULED, CLAIMED) || is(SCHEDULED, CLEARED) || is(SCHEDULED, HELD) || is(SCHEDULED, DEAD) || \
  is(SCHEDULED, DISCARDED) || \
  is(CLEARED, CLAIMED) || is(CLEARED, RELEASED) || is(CLEARED, HELD) || is(CLEARED, WAITING) || \
  is(CLEARED, DISCARDED) || \
  is(CLAIMED, CLAIMED) || is(CLAIMED, RELEASED) || is(CLAIMED, HELD) || is(CLAIMED, SCHEDULED) || \
  is(CLAIMED, DEAD) || is(CLAIMED, DISCARDED) || \
  is(RELEASED, DELIVERED) || is(RELEASED, FAILED) || is(RELEASED, SCHEDULED) || is(RELEASED, DEAD) || \
  is(RELEASED, RECONCILING) || \
  is(RECONCILING, DELIVERED) || is(RECONCILING, FAILED) || is(RECONCILING, SCHEDULED) || is(RECONCILING, DEAD) || \
  is(HELD, DISCARDED) || CLAIMED_AGAIN)

/* Every change of the state goes through here, so no path of the protocol leaves the table. */
inline move(to) {
  assert(PERMITTED);
  state = to;
  forget_what_is_over()
}

#define ENDED (state >= HELD)
#define IN_HAND (state == CLAIMED || state == RELEASED || state == RECONCILING)

/*
 * Nobody asks any more for a fence that no claim and no release has, nor for anything of a delivery that has ended. Whatever
 * nobody asks for is put back to nothing, or there would be more states and no more to see in them.
 */
inline forget_what_is_over() {
  if :: !IN_HAND -> fence = 0; sender = 0; landed = 0 :: else fi;
  if :: ENDED -> judged_for = 0; approved_for = 0 :: else fi
}

/* ---- Facts, as they are committed. ---- */

#define A 1
#define B 2
#define C 4
#define RUNNING   0
#define COMPLETED 1     /* the normal end, which a release forgives */
#define STOPPED   2

byte reads_d;           /* the readers of D: A, B and perhaps C. The set itself stands for its fingerprint. */
byte reads_s = A + B + C;
bit  changed;           /* the source was edited or deleted after the agent had read it */
bit  stop;              /* a stop condition holds */
bit  revoked;           /* the grant is revoked */
byte turn = RUNNING;

/* ---- The delivery's row. ---- */

byte state = PROPOSED;
byte judged_for;        /* the fingerprint it was judged for */
bit  needs_approval;
byte approved_for;      /* the fingerprint that the approving person was shown; 0: no approval */
/*
 * The newest fence, by the process that it was given to. A number would grow for ever; all that is asked of it is
 * whether it is the newest, and a process keeps no more than one fence in mind, so the name of the process that holds the newest is
 * as good. Every claim gives a new one, and so does a release by clearance, which needs no claim.
 */
byte fence;
#define RETRIES 1
byte tries;             /* how often it went back to be tried again */

/* ---- What happened at the platform, and who knows. No process looks at these to decide. ---- */

byte copies;            /* messages that the platform shows */
byte early;             /* settled as not sent by a person while the bytes were still out, see `settle` */
byte sender;            /* whom the newest release handed the bytes to */
bit  landed;            /* the newest release has become a message. A person can see this by its mark. */
byte holding;           /* which processes hold bytes that they have not tried to send yet */

/* ---- The storm: everything that may go wrong, or be wished. ---- */

/*
 * For liveness: nothing can be promised while workers crash for ever and the facts never rest. So the storm may
 * end, at any moment and in any state that it can lead to. From then on nobody crashes, no fact changes, no lease of a living worker runs out, nothing
 * grows too old, and nobody discards or proposes again. Then whatever is under way has to end, by the workers' own work.
 */
#ifdef LIVE
bit calm;
#define STORM (!calm)
#define LEASE_OVER (STORM || lapsed)
bit lapsed;             /* the worker that holds the claim has crashed: its lease will run out */
active proctype weather() { calm = true }
#define UNDER_WAY (state == CLEARED || state == SCHEDULED || state == CLAIMED || state == RELEASED)
ltl ends { [] (calm -> <> !UNDER_WAY) }
#else
#define STORM true
#define LEASE_OVER true
#endif

/*
 * For deadlocks: at any moment everybody may be told to begin nothing new. What is under way then ends, unless some
 * wait for each other: then nothing moves any more, and those who wait are no valid end.
 */
#ifdef LIVE
#define OPEN true
#else
bit closed;
#define OPEN (!closed)
active proctype closing() { closed = true }
#endif

/* ---- Locks. The numbers are the order of the protocol. ---- */

#define ORGANIZATION 0  /* organization_revisions */
#define ROW_D        1  /* the row of the conversation D: whoever appends to D, or changes its members */
#define REVISION_D   2  /* conversation_revisions, of D */
#define REVISION_S   3  /* conversation_revisions, of S */
#define TURN         4  /* the turn and its grant, which are always locked one after the other */
#define DELIVERY     5

byte shared[4];         /* by whom, a bit for each process */
byte owner[6];          /* exclusively by whom */

#define WRITER   1
#define PROPOSER 2
#define WORKER_1 3
#define WORKER_2 4
#define PERSON   5

#define mine(me) (1 << me)
#define unlocked(l) (owner[l] == 0 && shared[l] == 0)
#define only_row_lock(l) (owner[l] == 0)

/* FOR SHARE: waits for an exclusive lock. */
inline share(me, l) {
  atomic { owner[l] == 0 -> shared[l] = shared[l] | mine(me); may_crash(me) }
}

/* FOR NO KEY UPDATE, and what an UPDATE takes: waits for every other lock. On a revision. */
inline take(me, l) {
  atomic { unlocked(l) -> owner[l] = me; may_crash(me) }
}

/* The same on a row that nobody locks in share mode. */
inline take_row(me, l) {
  atomic { only_row_lock(l) -> owner[l] = me; may_crash(me) }
}

inline let_go(me) {
  shared[ORGANIZATION] = shared[ORGANIZATION] & ~mine(me);
  shared[REVISION_D] = shared[REVISION_D] & ~mine(me);
  shared[REVISION_S] = shared[REVISION_S] & ~mine(me);
  if :: owner[ORGANIZATION] == me -> owner[ORGANIZATION] = 0 :: else fi;
  if :: owner[ROW_D] == me -> owner[ROW_D] = 0 :: else fi;
  if :: owner[REVISION_D] == me -> owner[REVISION_D] = 0 :: else fi;
  if :: owner[REVISION_S] == me -> owner[REVISION_S] = 0 :: else fi;
  if :: owner[TURN] == me -> owner[TURN] = 0 :: else fi;
  if :: owner[DELIVERY] == me -> owner[DELIVERY] = 0 :: else fi
}

/*
 * The transaction is rolled back, and the process that asked for it is gone: it begins again and remembers
 * nothing. Each process has a label `crashed` where it begins again. Used inside of atomic steps only.
 */
inline may_crash(me) {
  if
  :: STORM -> let_go(me); goto crashed
  :: true
  fi
}

/* ---- The check. ---- */

/* Everybody who reads D reads the source, and it is what the agent had read. */
#define SOURCES(d, s, c) ((d & ~s) == 0 && !c)

#ifdef SOURCES_NOT_ASKED_AGAIN
#define SOURCES_AGAIN(d, s, c) true
#else
#define SOURCES_AGAIN(d, s, c) SOURCES(d, s, c)
#endif

#ifdef APPROVAL_NOT_BOUND
#define APPROVED (!needs_approval || approved_for != 0)
#define APPROVAL_IS_STALE false
#else
#define APPROVED (!needs_approval || approved_for == judged_for)
#define APPROVAL_IS_STALE (shown != judged_for)
#endif

/*
 * Asked at a release: a stop and a revocation count, the normal end of the turn does not. The row is locked and read again in any
 * case, so the snapshot (d, s, c, h, r, t) concerns the facts alone.
 */
#define FACTS_HOLD(d, s, c, h, r, t) \
  (!h && !r && t != STOPPED && d == judged_for && SOURCES_AGAIN(d, s, c))
#define STILL_HOLDS(d, s, c, h, r, t) (FACTS_HOLD(d, s, c, h, r, t) && APPROVED)

/*
 * THE INVARIANT, asked of the facts as they are at the commit of a release, whatever the check had seen: every
 * current reader of D reads the source, which is unchanged; they are the audience it was judged for, and the one an approving
 * person was shown; nothing has stopped it and its grant is not revoked.
 */
inline assert_may_be_shown() {
  assert((reads_d & A) == 0 || (reads_s & A) != 0);
  assert((reads_d & B) == 0 || (reads_s & B) != 0);
  assert((reads_d & C) == 0 || (reads_s & C) != 0);
  assert(!changed);
  assert(reads_d == judged_for);
  assert(!needs_approval || reads_d == approved_for);
  assert(!stop && !revoked && turn != STOPPED)
}

/* lock_readability, then turn and grant, delivery: a proposal and an approval. */
inline lock_all(me) {
  share(me, ORGANIZATION);
  share(me, REVISION_D);
  share(me, REVISION_S);
  take_row(me, TURN);
  take_row(me, DELIVERY)
}

/* The same for a release; the broken orders are here. */
inline lock_for_release(me) {
#ifdef LOCKS_IN_ANOTHER_ORDER
  take_row(me, DELIVERY);
#endif
  share(me, ORGANIZATION);
  share(me, REVISION_D);
#ifndef SOURCE_NOT_LOCKED
  share(me, REVISION_S);
#endif
  take_row(me, TURN)
#ifndef LOCKS_IN_ANOTHER_ORDER
  ;
  take_row(me, DELIVERY)
#endif
}

/* An acknowledgement appends to D's story: the conversation's row, its revision, the delivery. */
inline lock_for_report(me) {
  take_row(me, ROW_D);
  take(me, REVISION_D);
  take_row(me, DELIVERY)
}

/* ---- Who changes facts. ---- */

/*
 * C as a member of D comes and goes as often as she likes. Of all that forbids a release, one at a time is true: they
 * are asked side by side, so two do nothing that one does not.
 */
#define NOTHING_FORBIDS (reads_s == A + B + C && !changed && !stop && !revoked && turn != STOPPED)
#define MAY_CHANGE (STORM && OPEN && !ENDED)

active proctype writer() {
crashed:
end:
  do
  :: MAY_CHANGE ->
     /* A membership of D: the conversation's row, then its revision, then the commit. */
     take_row(WRITER, ROW_D);
     take(WRITER, REVISION_D);
     atomic { reads_d = reads_d ^ C; let_go(WRITER) }
  :: MAY_CHANGE ->
     /* A change of a user that reaches her conversations: the organization's revision comes first. */
     take(WRITER, ORGANIZATION);
     take_row(WRITER, ROW_D);
     take(WRITER, REVISION_D);
     atomic { reads_d = reads_d ^ C; let_go(WRITER) }
  :: atomic { MAY_CHANGE && NOTHING_FORBIDS && unlocked(REVISION_S) -> reads_s = reads_s & ~C }
  :: atomic { MAY_CHANGE && NOTHING_FORBIDS && unlocked(REVISION_S) -> changed = true }
  :: atomic { MAY_CHANGE && NOTHING_FORBIDS && unlocked(ORGANIZATION) -> stop = true }
  :: atomic { MAY_CHANGE && stop && unlocked(ORGANIZATION) -> stop = false }
  :: atomic { MAY_CHANGE && only_row_lock(TURN) && turn == RUNNING -> turn = COMPLETED }
  :: atomic { MAY_CHANGE && NOTHING_FORBIDS && only_row_lock(TURN) -> turn = STOPPED }
  :: atomic { MAY_CHANGE && NOTHING_FORBIDS && only_row_lock(TURN) -> revoked = true }
  od
}

/* ---- The agent proposes, and may repeat the proposal under the same key. ---- */

/* Only what has not left, and is in nobody's hands, is judged again. */
#define JUDGED_AGAIN (state == PROPOSED || state == CLEARED || state == WAITING)

#define REFUSED 0       /* nothing is changed */
#define HOLD    1
#define GO      2
#define OWN     3       /* released before, under the very claim that asks: its answer was lost */

active proctype proposer() {
  byte verdict;
crashed:
end:
  do
  :: STORM && OPEN && JUDGED_AGAIN ->
     lock_all(PROPOSER);
     /* The check. Unlike a release it needs a turn that still runs. */
     atomic {
       if
       :: stop || revoked || turn != RUNNING || !JUDGED_AGAIN -> verdict = REFUSED
       :: else -> verdict = (SOURCES(reads_d, reads_s, changed) -> GO : HOLD)
       fi;
       if :: STORM -> verdict = REFUSED; let_go(PROPOSER); goto crashed :: true fi
     }
     atomic {
       if
       :: verdict == REFUSED -> skip
       :: verdict == HOLD -> move(HELD)
       :: verdict == GO ->
          /* Judged for whoever reads D now. An approval that was given for others is void from here on. */
          judged_for = reads_d;
          if
          :: APPROVED && state != CLEARED -> move(CLEARED)
          :: APPROVED && state != CLEARED -> move(SCHEDULED)
          :: !APPROVED && state != WAITING -> move(WAITING)
          :: else
          fi
       fi;
       verdict = REFUSED;
       let_go(PROPOSER)
     }
  od
}

/* ---- A worker: claims, releases, sends, acknowledges. ---- */

#ifdef RELEASE_WITHOUT_FENCE
#define CLAIM_STANDS (state == CLAIMED)
#else
#define CLAIM_STANDS (state == CLAIMED && fence == me)
#endif

#define REPORT_STANDS (fence == me)

/* A lease may run out at any time, also of a worker that lives and goes on as if it had it. */
#define CLAIMABLE (state == CLEARED || state == SCHEDULED || (state == CLAIMED && LEASE_OVER) || \
  (CLAIMED_AGAIN_FROM_HERE))
#ifdef RECONCILING_CLAIMED_AGAIN
#define CLAIMED_AGAIN_FROM_HERE state == RECONCILING
#else
#define CLAIMED_AGAIN_FROM_HERE false
#endif

/* Not sent, as far as the one who says so knows: an end, or another try as long as there are some left. */
inline settle_as_not_sent() {
  if
  :: move(FAILED)
  :: tries < RETRIES -> tries++; move(SCHEDULED)
  :: tries == RETRIES -> move(DEAD)
  fi
}

proctype worker(byte me) {
  byte verdict;
  bit by_clearance;     /* releases without a claim, with a clearance */
  bit took;             /* the platform took the message */
#ifdef CHECK_IN_LOCK_SNAPSHOT
  byte d, s, t;
  bit c, h, r;
#endif

crashed:
  /* Whatever it had in hand is gone, and nobody knows more than the database and the platform. */
  atomic {
    verdict = REFUSED; by_clearance = 0; took = 0;
    holding = holding & ~mine(me);
#ifdef LIVE
    if :: state == CLAIMED && fence == me -> lapsed = 1 :: else fi
#endif
  }
end:
  do
  :: /* FOR UPDATE SKIP LOCKED: a row that is locked is passed over, one that is not is read as it is now. */
     atomic {
       OPEN && only_row_lock(DELIVERY) && CLAIMABLE ->
       move(CLAIMED);
       fence = me;
#ifdef LIVE
       lapsed = 0
#endif
     };
     if
     :: goto release
     :: STORM -> goto crashed
     :: /* It gives the claim back: the platform is not there, say. */
        atomic {
          only_row_lock(DELIVERY) ->
          if
          :: state == CLAIMED && fence == me && tries < RETRIES -> tries++; move(SCHEDULED)
          :: state == CLAIMED && fence == me && tries == RETRIES -> move(DEAD)
          :: else
          fi
        }
     fi
  :: atomic { OPEN && state == CLEARED -> by_clearance = 1 };
     goto release
  od;

release:
#ifdef CHECK_IN_LOCK_SNAPSHOT
  atomic { d = reads_d; s = reads_s; c = changed; h = stop; r = revoked; t = turn };
#endif
  lock_for_release(me);
  /* The check: another command, whose snapshot is newer than the locks. */
  atomic {
    if
    :: (!by_clearance && CLAIM_STANDS) || (by_clearance && state == CLEARED) ->
#ifdef CHECK_IN_LOCK_SNAPSHOT
       verdict = (STILL_HOLDS(d, s, c, h, r, t) -> GO : HOLD);
#else
       verdict = (STILL_HOLDS(reads_d, reads_s, changed, stop, revoked, turn) -> GO : HOLD);
#endif
    :: !by_clearance && (state == RELEASED || state == RECONCILING) && fence == me -> verdict = OWN
    :: else -> verdict = REFUSED
    fi;
#ifdef CHECK_IN_LOCK_SNAPSHOT
    d = 0; s = 0; c = 0; h = 0; r = 0; t = 0;
#endif
    may_crash(me)
  };
  atomic {
    if
    :: verdict == GO ->
       assert_may_be_shown();
       move(RELEASED);
       if :: by_clearance -> fence = me :: else fi;
       sender = me; landed = 0;
       holding = holding | mine(me)
    :: verdict == HOLD -> move(HELD)
    :: else
    fi;
    let_go(me)
  };
  if
  :: verdict == GO
  :: atomic { verdict == OWN -> verdict = REFUSED; goto acknowledge }   /* it was released, and nothing was handed out to send */
  :: else -> goto crashed                  /* nothing in hand: it begins again */
  fi;

  /* The commit stands, whatever becomes of its answer and of the worker. */
  if
  :: STORM -> goto crashed
  :: STORM && !by_clearance ->             /* the answer is lost and the worker lives: it asks again */
     atomic { holding = holding & ~mine(me); verdict = REFUSED };
     goto release
  :: atomic {
       holding = holding & ~mine(me);
       verdict = REFUSED;
       if
       :: copies++;
          if :: sender == me -> landed = 1 :: else fi;
          took = 1;
          /* NOTHING IS DOUBLED: each copy after the first has cost an early settlement. */
          assert(copies <= 1 + early)
       :: skip                             /* the platform refuses it, and shows nothing */
       fi;
       may_crash(me)
     }
  fi;

acknowledge:
  lock_for_report(me);
  atomic {
    if
    :: (state == RELEASED || state == RECONCILING) && REPORT_STANDS ->
       /* It speaks of the release that is to be settled, and says what is so. */
       assert(sender == me && landed == took);
       if
       :: took -> move(DELIVERED)
       :: else -> settle_as_not_sent()
       fi
    :: else                                /* fenced, or settled by somebody else: nothing is changed */
    fi;
    let_go(me)
  };
  goto crashed;
}

/* ---- A person: approves, settles what may have been sent, discards. ---- */

#ifdef SETTLE_WITHOUT_FENCE
#define SETTLEMENT_STANDS true
#else
#define SETTLEMENT_STANDS (tries == seen_try)
#endif

#ifndef NO_PERSON
active proctype person() {
  byte shown;           /* the audience of the delivery, as it was shown */
  bit found;            /* the message was found at the platform */
  bit out;              /* the bytes were still in a worker's hands at that time: nobody can see this */
  byte seen_try;        /* of which release: there is one of each try */
  byte verdict;
crashed:
  atomic { shown = 0; found = 0; out = 0; seen_try = 0; verdict = REFUSED };
end:
  do
  :: atomic { OPEN && state == WAITING -> shown = judged_for };
     lock_all(PERSON);
     /* An approval overrides nothing: everything is asked as for a release. */
     atomic {
       if
       :: state != WAITING || APPROVAL_IS_STALE -> verdict = REFUSED
       :: else -> verdict = (FACTS_HOLD(reads_d, reads_s, changed, stop, revoked, turn) -> GO : HOLD)
       fi;
       may_crash(PERSON)
     };
     atomic {
       if
       :: verdict == GO -> approved_for = shown; move(CLEARED)
       :: verdict == HOLD -> move(HELD)
       :: else
       fi;
       let_go(PERSON);
       goto crashed
     }
  :: /* She looks at the platform, and says later what she saw. */
     atomic {
       OPEN && state == RECONCILING ->
       found = landed; seen_try = tries;
       out = ((holding & mine(sender)) != 0)
     };
     lock_for_report(PERSON);
     atomic {
       if
       :: state == RECONCILING && SETTLEMENT_STANDS ->
          if
          :: found -> move(DELIVERED)
          :: else ->
             /* Unless it was still out when she looked, what she did not find is not there. */
             assert(!landed || out);
             if :: out && (landed || (holding & mine(sender))) -> early++ :: else fi;
             settle_as_not_sent()
          fi
       :: else
       fi;
       let_go(PERSON);
       goto crashed
     }
  :: atomic {
       STORM && OPEN && only_row_lock(DELIVERY) &&
       (state == WAITING || state == SCHEDULED || state == CLEARED || state == CLAIMED || state == HELD) ->
       move(DISCARDED)
     }
  od
}
#endif

/* ---- Time. Each is one command on the row. ---- */

active proctype clock() {
end:
  do
  :: atomic { OPEN && only_row_lock(DELIVERY) && state == SCHEDULED -> move(CLEARED) }
  :: /* Its age is over. */
     atomic {
       STORM && OPEN && only_row_lock(DELIVERY) &&
       (state == WAITING || state == SCHEDULED || state == CLEARED || state == CLAIMED) ->
       move(HELD)
     }
  :: /* Not acknowledged in time. */
     atomic { OPEN && only_row_lock(DELIVERY) && state == RELEASED -> move(RECONCILING) }
  od
}

init {
  atomic {
    if :: reads_d = A + B :: reads_d = A + B + C fi;
#ifdef APPROVAL
    needs_approval = 1;
#endif
    run worker(WORKER_1)
#ifndef ONE_WORKER
    ;
    run worker(WORKER_2)
#endif
  }
}
