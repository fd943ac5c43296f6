package event

// The names are stored: never change one.
const (
	TypeGoalReceived         Type = "goal_received"
	TypeGoalRevised          Type = "goal_revised"
	TypeGoalPaused           Type = "goal_paused"
	TypeGoalResumed          Type = "goal_resumed"
	TypeGoalCancelled        Type = "goal_cancelled"
	TypeGoalFailed           Type = "goal_failed"
	TypeGoalCompleted        Type = "goal_completed"
	TypeGoalWaiting          Type = "goal_waiting"
	TypeGoalWoken            Type = "goal_woken"
	TypeGoalHandedOff        Type = "goal_handed_off"
	TypeBudgetExtended       Type = "budget_extended"
	TypePolicyChanged        Type = "policy_changed"
	TypeModelChanged         Type = "model_changed"
	TypeTurnStarted          Type = "turn_started"
	TypeTurnEnded            Type = "turn_ended"
	TypeUserMessage          Type = "user_message"
	TypeModelRequested       Type = "model_requested"
	TypeModelResponded       Type = "model_responded"
	TypeModelFailed          Type = "model_failed"
	TypeContextCompacted     Type = "context_compacted"
	TypePlanModeEntered      Type = "plan_mode_entered"
	TypePlanUpdated          Type = "plan_updated"
	TypePlanModeExited       Type = "plan_mode_exited"
	TypeCriteriaConfirmed    Type = "criteria_confirmed"
	TypeTodosUpdated         Type = "todos_updated"
	TypeDecisionRecorded     Type = "decision_recorded"
	TypeDecisionRevoked      Type = "decision_revoked"
	TypeMemoryRecalled       Type = "memory_recalled"
	TypeMemoryForgotten      Type = "memory_forgotten"
	TypeOperationProposed    Type = "operation_proposed"
	TypeOperationRejected    Type = "operation_rejected"
	TypeApprovalRequested    Type = "approval_requested"
	TypeApprovalGranted      Type = "approval_granted"
	TypeApprovalDenied       Type = "approval_denied"
	TypeOperationStarted     Type = "operation_started"
	TypeOperationFinished    Type = "operation_finished"
	TypeOperationReconciled  Type = "operation_reconciled"
	TypeWorkspaceAttached    Type = "workspace_attached"
	TypeWorkspaceObserved    Type = "workspace_observed"
	TypeInstructionsFound    Type = "instructions_found"
	TypeRepoStateMutated     Type = "repo_state_mutated"
	TypeDiffUpdated          Type = "diff_updated"
	TypeCheckpointCreated    Type = "checkpoint_created"
	TypeIndexChanged         Type = "index_changed"
	TypeWorkspaceRestored    Type = "workspace_restored"
	TypeWorkspacePacked      Type = "workspace_packed"
	TypeWorkspaceMoved       Type = "workspace_moved"
	TypeEnvironmentCaptured  Type = "environment_captured"
	TypeTestCompleted        Type = "test_completed"
	TypeCompletionClaimed    Type = "completion_claimed"
	TypeVerificationStarted  Type = "verification_started"
	TypeVerificationFinished Type = "verification_finished"
	TypeCriterionAnswered    Type = "criterion_answered"
	TypeProgressAlarm        Type = "progress_alarm"
	TypeActionForbidden      Type = "action_forbidden"
	TypeLateFact             Type = "late_fact"
	TypeChildReserved        Type = "child_reserved"
	TypeChildStarted         Type = "child_started"
	TypeChildOrdered         Type = "child_ordered"
	TypeChildEnded           Type = "child_ended"
	TypeParentOrdered        Type = "parent_ordered"
	TypeParentTold           Type = "parent_told"
)

// EventType returns TypeGoalReceived.
func (GoalReceived) EventType() Type { return TypeGoalReceived }

// EventType returns TypeGoalRevised.
func (GoalRevised) EventType() Type { return TypeGoalRevised }

// EventType returns TypeGoalPaused.
func (GoalPaused) EventType() Type { return TypeGoalPaused }

// EventType returns TypeGoalResumed.
func (GoalResumed) EventType() Type { return TypeGoalResumed }

// EventType returns TypeGoalCancelled.
func (GoalCancelled) EventType() Type { return TypeGoalCancelled }

// EventType returns TypeGoalFailed.
func (GoalFailed) EventType() Type { return TypeGoalFailed }

// EventType returns TypeGoalCompleted.
func (GoalCompleted) EventType() Type { return TypeGoalCompleted }

// EventType returns TypeGoalWaiting.
func (GoalWaiting) EventType() Type { return TypeGoalWaiting }

// EventType returns TypeGoalWoken.
func (GoalWoken) EventType() Type { return TypeGoalWoken }

// EventType returns TypeGoalHandedOff.
func (GoalHandedOff) EventType() Type { return TypeGoalHandedOff }

// EventType returns TypeModelChanged.
func (ModelChanged) EventType() Type { return TypeModelChanged }

// EventType returns TypePolicyChanged.
func (PolicyChanged) EventType() Type { return TypePolicyChanged }

// EventType returns TypeBudgetExtended.
func (BudgetExtended) EventType() Type { return TypeBudgetExtended }

// EventType returns TypeTurnStarted.
func (TurnStarted) EventType() Type { return TypeTurnStarted }

// EventType returns TypeTurnEnded.
func (TurnEnded) EventType() Type { return TypeTurnEnded }

// EventType returns TypeUserMessage.
func (UserMessage) EventType() Type { return TypeUserMessage }

// EventType returns TypeModelRequested.
func (ModelRequested) EventType() Type { return TypeModelRequested }

// EventType returns TypeModelResponded.
func (ModelResponded) EventType() Type { return TypeModelResponded }

// EventType returns TypeModelFailed.
func (ModelFailed) EventType() Type { return TypeModelFailed }

// EventType returns TypeContextCompacted.
func (ContextCompacted) EventType() Type { return TypeContextCompacted }

// EventType returns TypePlanModeEntered.
func (PlanModeEntered) EventType() Type { return TypePlanModeEntered }

// EventType returns TypePlanUpdated.
func (PlanUpdated) EventType() Type { return TypePlanUpdated }

// EventType returns TypePlanModeExited.
func (PlanModeExited) EventType() Type { return TypePlanModeExited }

// EventType returns TypeCriteriaConfirmed.
func (CriteriaConfirmed) EventType() Type { return TypeCriteriaConfirmed }

// EventType returns TypeTodosUpdated.
func (TodosUpdated) EventType() Type { return TypeTodosUpdated }

// EventType returns TypeDecisionRecorded.
func (DecisionRecorded) EventType() Type { return TypeDecisionRecorded }

// EventType returns TypeDecisionRevoked.
func (DecisionRevoked) EventType() Type { return TypeDecisionRevoked }

// EventType returns TypeMemoryRecalled.
func (MemoryRecalled) EventType() Type { return TypeMemoryRecalled }

// EventType returns TypeMemoryForgotten.
func (MemoryForgotten) EventType() Type { return TypeMemoryForgotten }

// EventType returns TypeOperationProposed.
func (OperationProposed) EventType() Type { return TypeOperationProposed }

// EventType returns TypeOperationRejected.
func (OperationRejected) EventType() Type { return TypeOperationRejected }

// EventType returns TypeApprovalRequested.
func (ApprovalRequested) EventType() Type { return TypeApprovalRequested }

// EventType returns TypeApprovalGranted.
func (ApprovalGranted) EventType() Type { return TypeApprovalGranted }

// EventType returns TypeApprovalDenied.
func (ApprovalDenied) EventType() Type { return TypeApprovalDenied }

// EventType returns TypeOperationStarted.
func (OperationStarted) EventType() Type { return TypeOperationStarted }

// EventType returns TypeOperationFinished.
func (OperationFinished) EventType() Type { return TypeOperationFinished }

// EventType returns TypeOperationReconciled.
func (OperationReconciled) EventType() Type { return TypeOperationReconciled }

// EventType returns TypeWorkspaceAttached.
func (WorkspaceAttached) EventType() Type { return TypeWorkspaceAttached }

// EventType returns TypeInstructionsFound.
func (InstructionsFound) EventType() Type { return TypeInstructionsFound }

// EventType returns TypeWorkspaceObserved.
func (WorkspaceObserved) EventType() Type { return TypeWorkspaceObserved }

// EventType returns TypeRepoStateMutated.
func (RepoStateMutated) EventType() Type { return TypeRepoStateMutated }

// EventType returns TypeDiffUpdated.
func (DiffUpdated) EventType() Type { return TypeDiffUpdated }

// EventType returns TypeCheckpointCreated.
func (CheckpointCreated) EventType() Type { return TypeCheckpointCreated }

// EventType returns TypeIndexChanged.
func (IndexChanged) EventType() Type { return TypeIndexChanged }

// EventType returns TypeWorkspaceRestored.
func (WorkspaceRestored) EventType() Type { return TypeWorkspaceRestored }

// EventType returns TypeWorkspacePacked.
func (WorkspacePacked) EventType() Type { return TypeWorkspacePacked }

// EventType returns TypeWorkspaceMoved.
func (WorkspaceMoved) EventType() Type { return TypeWorkspaceMoved }

// EventType returns TypeEnvironmentCaptured.
func (EnvironmentCaptured) EventType() Type { return TypeEnvironmentCaptured }

// EventType returns TypeTestCompleted.
func (TestCompleted) EventType() Type { return TypeTestCompleted }

// EventType returns TypeCompletionClaimed.
func (CompletionClaimed) EventType() Type { return TypeCompletionClaimed }

// EventType returns TypeVerificationStarted.
func (VerificationStarted) EventType() Type { return TypeVerificationStarted }

// EventType returns TypeVerificationFinished.
func (VerificationFinished) EventType() Type { return TypeVerificationFinished }

// EventType returns TypeCriterionAnswered.
func (CriterionAnswered) EventType() Type { return TypeCriterionAnswered }

// EventType returns TypeProgressAlarm.
func (ProgressAlarm) EventType() Type { return TypeProgressAlarm }

// EventType returns TypeActionForbidden.
func (ActionForbidden) EventType() Type { return TypeActionForbidden }

// EventType returns TypeLateFact.
func (LateFact) EventType() Type { return TypeLateFact }

// EventType returns TypeChildReserved.
func (ChildReserved) EventType() Type { return TypeChildReserved }

// EventType returns TypeChildStarted.
func (ChildStarted) EventType() Type { return TypeChildStarted }

// EventType returns TypeChildOrdered.
func (ChildOrdered) EventType() Type { return TypeChildOrdered }

// EventType returns TypeChildEnded.
func (ChildEnded) EventType() Type { return TypeChildEnded }

// EventType returns TypeParentOrdered.
func (ParentOrdered) EventType() Type { return TypeParentOrdered }

// EventType returns TypeParentTold.
func (ParentTold) EventType() Type { return TypeParentTold }

func init() {
	register[GoalReceived]()
	register[GoalRevised]()
	register[GoalPaused]()
	register[GoalResumed]()
	register[GoalCancelled]()
	register[GoalFailed]()
	register[GoalCompleted]()
	register[GoalWaiting]()
	register[GoalWoken]()
	register[GoalHandedOff]()
	register[BudgetExtended]()
	register[PolicyChanged]()
	register[ModelChanged]()
	register[TurnStarted]()
	register[TurnEnded]()
	register[UserMessage]()
	register[ModelRequested]()
	register[ModelResponded]()
	register[ModelFailed]()
	register[ContextCompacted]()
	register[PlanModeEntered]()
	register[PlanUpdated]()
	register[PlanModeExited]()
	register[CriteriaConfirmed]()
	register[TodosUpdated]()
	register[DecisionRecorded]()
	register[DecisionRevoked]()
	register[MemoryRecalled]()
	register[MemoryForgotten]()
	register[OperationProposed]()
	register[OperationRejected]()
	register[ApprovalRequested]()
	register[ApprovalGranted]()
	register[ApprovalDenied]()
	register[OperationStarted]()
	register[OperationFinished]()
	register[OperationReconciled]()
	register[WorkspaceAttached]()
	register[WorkspaceObserved]()
	register[InstructionsFound]()
	register[RepoStateMutated]()
	register[DiffUpdated]()
	register[CheckpointCreated]()
	register[IndexChanged]()
	register[WorkspaceRestored]()
	register[WorkspacePacked]()
	register[WorkspaceMoved]()
	register[EnvironmentCaptured]()
	register[TestCompleted]()
	register[CompletionClaimed]()
	register[VerificationStarted]()
	register[VerificationFinished]()
	register[CriterionAnswered]()
	register[ProgressAlarm]()
	register[ActionForbidden]()
	register[LateFact]()
	register[ChildReserved]()
	register[ChildStarted]()
	register[ChildOrdered]()
	register[ChildEnded]()
	register[ParentOrdered]()
	register[ParentTold]()
}
